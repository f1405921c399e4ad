package migration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// javaLock does what a thread of Redisson does to the keys when it locks, and answers nil, or for how long another holder's lock lives.
func javaLock(conn redis.Conn, name, holder string) (any, error) {
	return redis.NewScript(1, `
		local free = redis.call('EXISTS', KEYS[1]) == 0
		if not free and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
			return redis.call('PTTL', KEYS[1])
		end
		redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
		redis.call('PEXPIRE', KEYS[1], 30000)
		return false`).Do(conn, name, holder)
}

// javaUnlock does what the thread does when it unlocks a lock that it has locked once.
func javaUnlock(t *testing.T, conn redis.Conn, name string) {
	t.Helper()
	conn.Do("DEL", name)
	if _, err := conn.Do("PUBLISH", "redisson_lock__channel:{"+name+"}", "0"); err != nil {
		t.Fatal(err)
	}
}

func dialled(t *testing.T, masters *redlocktest.Masters) (*redis.Pool, redis.Conn) {
	t.Helper()
	server := masters.Pools()[0]
	conn := server.Get()
	t.Cleanup(func() { conn.Close() })
	return server, conn
}

// A Go service that takes Redisson's lock waits for a thread in Java, keeps such threads out, and wakes them at the end.
func TestTheGoServiceAndRedissonExcludeEachOther(t *testing.T) {
	server, java := dialled(t, redlocktest.StartN(t, 1))
	if reply, err := javaLock(java, "report", "java:47"); reply != nil || err != nil {
		t.Fatalf("the free lock is answered %v, %v", reply, err)
	}
	listener := redis.PubSubConn{Conn: server.Get()}
	defer listener.Close()
	if err := listener.Subscribe("redisson_lock__channel:{report}"); err != nil {
		t.Fatal(err)
	}
	listener.ReceiveWithTimeout(10 * time.Second) // it is confirmed

	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := withRLock(short, server, "report", func(context.Context) error { return errors.New("two holders") })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while a thread in Java has the lock: %v, want the end of ctx", err)
	}
	javaUnlock(t, java, "report")
	listener.ReceiveWithTimeout(10 * time.Second) // that unlock

	err = withRLock(t.Context(), server, "report", func(context.Context) error {
		if left, err := redis.Int(javaLock(java, "report", "java:48")); err != nil || left <= 0 {
			t.Errorf("while the Go service has the lock, a thread in Java is answered %v, %v, want that it waits", left, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if m, ok := listener.ReceiveWithTimeout(10 * time.Second).(redis.Message); !ok || string(m.Data) != "0" {
		t.Errorf("threads that wait are told %v, want 0", m)
	}
	if reply, err := javaLock(java, "report", "java:48"); reply != nil || err != nil {
		t.Errorf("after the end a thread in Java is answered %v, %v, want that it has the lock", reply, err)
	}
}

// On the same key of the same server, neither gets what the other has. But the thread in Java gets an error where it would wait.
func TestARedissonLockAndALockerOnOneKey(t *testing.T) {
	masters := redlocktest.StartN(t, 1)
	_, java := dialled(t, masters)
	client, err := redlock.Open(masters.URLs(), &redlock.Options{NodeTimeout: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	lock := client.Locker("report")
	if err := lock.TryLockContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := javaLock(java, "report", "java:47"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a thread in Java is answered %v, want WRONGTYPE", err)
	}
	if err := lock.UnlockContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reply, err := javaLock(java, "report", "java:47"); reply != nil || err != nil {
		t.Fatalf("the free lock is answered %v, %v", reply, err)
	}
	if err := lock.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
		t.Errorf("TryLockContext = %v while a thread in Java has the lock, want ErrHeld", err)
	}
}
