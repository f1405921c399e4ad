package contract_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// An address leads to one server, and later to another one.
type address struct {
	hidesINFO bool // immutable; the servers forbid INFO

	mu     sync.Mutex // guards what follows
	target *redlocktest.Master
	conns  []*addressedConn
}

// An addressedConn notes whether its client has subscribed.
type addressedConn struct {
	net.Conn
	hidesINFO  bool // immutable
	subscribed atomic.Bool
}

func (c *addressedConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\r\nSUBSCRIBE\r\n")) {
		c.subscribed.Store(true)
	}
	if c.hidesINFO {
		p = bytes.ReplaceAll(p, []byte("\r\nINFO\r\n"), []byte("\r\nHIDE\r\n"))
	}
	return c.Conn.Write(p)
}

// pool returns a pool of connections to the address.
func (a *address) pool() *redis.Pool {
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		conn, err := a.target.Dial(ctx)
		if err != nil {
			return nil, err
		}
		c := &addressedConn{Conn: conn, hidesINFO: a.hidesINFO}
		a.conns = append(a.conns, c)
		return redis.NewConn(c, 0, 0), nil
	}}
}

// move makes new connections lead to another server, and ends the present ones, except subscriptions.
func (a *address) move(target *redlocktest.Master) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.target = target
	for _, c := range a.conns {
		if !c.subscribed.Load() {
			c.Close()
		}
	}
}

// After a failover behind an address, the subscription to the former server lives on.
func TestAfterAFailoverAClientIsWokenByTheServerThatExecutesItsCommands(t *testing.T) {
	for _, row := range []struct {
		name      string
		hidesINFO bool
	}{{"run_id is told", false}, {"INFO is forbidden", true}} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 6, func(t *testing.T, ms *redlocktest.Masters) {
				var addresses []*address
				var moving, present []*redis.Pool
				for i := range 3 {
					a := &address{hidesINFO: row.hidesINFO, target: ms.Master(i)}
					addresses, moving = append(addresses, a), append(moving, a.pool())
					to := &address{hidesINFO: row.hidesINFO, target: ms.Master(3 + i)}
					present = append(present, to.pool())
				}
				open := func(pools []*redis.Pool) *redlock.Client {
					c, err := redlock.New(pools, nil)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { c.Close() })
					time.Sleep(2 * time.Second)
					if err := c.Ping(t.Context()); err != nil {
						t.Fatal(err)
					}
					return c
				}
				moved := open(moving)
				for i, a := range addresses {
					a.move(ms.Master(3 + i))
				}
				time.Sleep(15 * time.Second) // a quarantine, unless the run_id shows that the server was adopted
				turns, _ := loops(t, time.Second, moved, open(present))
				if turns[0] < turns[1]/2 {
					t.Errorf("the client whose masters have moved had %d turns, another one %d", turns[0], turns[1])
				}
				for _, m := range moved.Masters() {
					if m.WakeErr != nil {
						t.Errorf("%s: WakeErr = %v", m.Name, m.WakeErr)
					}
				}
			})
		})
	}
}

// loops has each client lock and unlock "a" for a time, and returns how often each one did, and how long it waited at most.
func loops(t *testing.T, last time.Duration, clients ...*redlock.Client) (turns []int, longest []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), last)
	defer cancel()
	turns, longest = make([]int, len(clients)), make([]time.Duration, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for l := c.Locker("a"); ; turns[i]++ {
				began := time.Now()
				err := l.LockContext(ctx)
				longest[i] = max(longest[i], time.Since(began))
				if err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
				l.Unlock()
			}
		})
	}
	all.Wait()
	return turns, longest
}
