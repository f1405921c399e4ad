package migration

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
)

// reportBesideRedisson holds both locks: that of Redisson on its server, as long as replicas in Java are left, and that of redlock.
func reportBesideRedisson(ctx context.Context, server *redis.Pool, client *redlock.Client) error {
	return withRLock(ctx, server, "report", func(ctx context.Context) error {
		return client.Locker("report").Do(ctx, report)
	})
}

// An RLock is a hash with a field for its holder, which lives for 30 s and is renewed every 10.
var (
	rlock = redis.NewScript(1, `return redis.call('EXISTS', KEYS[1]) == 0 and redis.call('HSET', KEYS[1], ARGV[1], 1)
		and redis.call('PEXPIRE', KEYS[1], 30000) or 0`)
	renewRLock  = redis.NewScript(1, `return redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and redis.call('PEXPIRE', KEYS[1], 30000) or 0`)
	unlockRLock = redis.NewScript(2, `return redis.call('HDEL', KEYS[1], ARGV[1]) == 1 and redis.call('PUBLISH', KEYS[2], '0')`)
)

// withRLock calls f while it holds an RLock. The connections of the pool need a read timeout of a few seconds: otherwise a server
// that hangs keeps f from being told that the lock is lost.
func withRLock(ctx context.Context, server *redis.Pool, name string, f func(context.Context) error) error {
	conn, err := server.GetContext(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	holder := rand.Text() + ":1" // Redisson's are a UUID and the number of a thread
	for {
		held, err := redis.Bool(rlock.Do(conn, name, holder))
		if err != nil {
			return err
		} else if held {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		for {
			select {
			case <-time.After(10 * time.Second):
				if held, err := redis.Bool(renewRLock.Do(conn, name, holder)); !held || err != nil {
					cancel(errors.Join(errors.New("the RLock is lost"), err))
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	err = f(ctx)
	cancel(nil)
	<-renewed // it uses the connection
	unlockRLock.Do(conn, name, "redisson_lock__channel:{"+name+"}", holder)
	return err
}
