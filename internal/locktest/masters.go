package locktest

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// A Tap keeps back what arrives at a client, while what the client sends passes.
type Tap struct {
	mu   sync.Mutex // guards what follows
	shut chan struct{}
}

// Shut makes the tap keep back what comes, until the returned function is called or the test ends.
func (tp *Tap) Shut(t *testing.T) (open func()) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	shut := make(chan struct{})
	tp.shut = shut
	open = sync.OnceFunc(func() { close(shut) })
	t.Cleanup(open)
	return open
}

// Pass waits until the tap is open.
func (tp *Tap) Pass() {
	tp.mu.Lock()
	shut := tp.shut
	tp.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

// OpenVia returns a Client that dials with a function, when it is connected as far as it can be.
func OpenVia(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options, dial func(ctx context.Context, i int) (net.Conn, error)) *redlock.Client {
	t.Helper()
	var pools []*redis.Pool
	for i := range ms.Len() {
		pools = append(pools, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			c, err := dial(ctx, i)
			if err != nil {
				return nil, err
			}
			return redis.NewConn(c, 0, 0), nil
		}})
	}
	c, err := redlock.New(pools, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		for _, p := range pools {
			p.Close()
		}
	})
	synctest.Wait()
	return c
}

// A stoppedConn is a connection of a client that may be stopped, as by SIGSTOP: nothing is read and nothing is written then, and the
// connection stands.
type stoppedConn struct {
	net.Conn
	running *Tap
}

func (c *stoppedConn) Write(p []byte) (int, error) {
	c.running.Pass()
	return c.Conn.Write(p)
}

func (c *stoppedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.running.Pass()
	return n, err
}

func (c *stoppedConn) Close() error {
	go func() {
		c.running.Pass()
		c.Conn.Close()
	}()
	return nil
}

// Stoppable returns a Client that is stopped while the tap is shut.
func Stoppable(t *testing.T, ms *redlocktest.Masters, running *Tap) *redlock.Client {
	return OpenVia(t, ms, nil, func(ctx context.Context, i int) (net.Conn, error) {
		running.Pass()
		c, err := ms.Master(i).Dial(ctx)
		return &stoppedConn{Conn: c, running: running}, err
	})
}

// Polls returns how many polls a master has executed.
func Polls(m *redlocktest.Master) int { return Commands(m, `"again `) }

// Commands returns how many commands with a part a master has executed.
func Commands(m *redlocktest.Master, part string) int {
	synctest.Wait()
	return len(slices.DeleteFunc(m.Commands(), func(c string) bool { return !strings.Contains(c, part) }))
}

// Queue returns the members of a queue at a master, in their order. Its key is that of the queue, not of the lock.
func Queue(t *testing.T, ms *redlocktest.Masters, i int, key string) []string {
	t.Helper()
	conn := ms.Pools()[i].Get()
	defer conn.Close()
	members, err := redis.Strings(conn.Do("ZRANGE", key, 0, -1))
	if err != nil {
		t.Fatal(err)
	}
	return members
}

// StartAdopted starts stopped masters again, and adopts them first, so that they vote at once.
func StartAdopted(ms *redlocktest.Masters, masters ...int) {
	for _, i := range masters {
		ms.Master(i).Adopt()
		ms.Master(i).Start()
	}
}

// LockKeys returns the keys of a master, except for what it notes about clients that wait, which stays until they close, or for ten seconds.
func LockKeys(m *redlocktest.Master) []string {
	return slices.DeleteFunc(m.Keys(), func(key string) bool { return strings.HasPrefix(key, "redlock:waiter:") })
}

// OpenAt returns a connected Client with the same one-way delay to all masters.
func OpenAt(ms *redlocktest.Masters, oneWay time.Duration, opts *redlock.Options) *redlock.Client {
	c := ms.WithDelays(slices.Repeat([]time.Duration{oneWay}, ms.Len())...).Open(opts)
	time.Sleep(time.Second)
	return c
}

// Number splits a fence into the part that masters agree on and the count of handovers.
func Number(fence uint64) (int64, uint64) { return int64(fence >> 10), fence & 1023 }

// Acquire acquires n permits.
func Acquire(t *testing.T, s *redlock.Semaphore, n int) *redlock.Permit {
	t.Helper()
	p, err := s.AcquireN(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
