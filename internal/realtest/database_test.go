package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// A sharedPool is a pool that a Client shares with other code.
type sharedPool struct {
	redis.Pool

	mu      sync.Mutex // guards what follows
	conns   []net.Conn // in the order in which they were dialled
	refuses bool       // dials fail
}

func newSharedPool(addr string, options ...redis.DialOption) *sharedPool {
	p := &sharedPool{}
	p.MaxIdle = 5
	options = append(options, redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.refuses && err == nil {
			conn.Close()
			return nil, errors.New("refused by the test")
		}
		p.conns = append(p.conns, conn)
		return conn, err
	}))
	p.DialContext = func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", addr, options...)
	}
	return p
}

func (p *sharedPool) refuse(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = is
}

// selects leaves idle connections in the pool that have selected another database.
func (p *sharedPool) selects(t *testing.T, database int) {
	t.Helper()
	var conns []redis.Conn
	for range 2 {
		conn := p.Get()
		if _, err := conn.Do("SELECT", database); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Close()
	}
}

func TestLocksAreInTheDatabaseOfAPoolsNewConnections(t *testing.T) {
	t.Parallel()
	const home = 2
	for _, unguarded := range []bool{false, true} {
		for _, row := range []struct {
			name string
			when func(t *testing.T, p *sharedPool, client func())
		}{
			{"SELECT before New", func(t *testing.T, p *sharedPool, client func()) {
				p.selects(t, 3)
				client()
			}},
			{"SELECT before the second dial, as the first has failed", func(t *testing.T, p *sharedPool, client func()) {
				p.refuse(true)
				client()
				p.refuse(false)
				p.selects(t, 3)
			}},
			{"SELECT before a reconnection", func(t *testing.T, p *sharedPool, client func()) {
				client()
				p.selects(t, 3)
				p.mu.Lock()
				defer p.mu.Unlock()
				p.conns[0].Close() // the Client's
			}},
		} {
			t.Run(fmt.Sprint(row.name, ", unguarded: ", unguarded), func(t *testing.T) {
				s := redisserver.StartTB(t, 1)[0]
				p := newSharedPool(s.Addr(), redis.DialDatabase(home))
				defer p.Close()
				var c *redlock.Client
				row.when(t, p, func() {
					var err error
					c, err = redlock.New([]*redis.Pool{&p.Pool}, &redlock.Options{DisableWakeups: true, DisableRestartGuard: unguarded})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { c.Close() })
					eventually(t, "it is connected", func() bool { return c.Masters()[0].State != redlock.MasterConnecting })
				})
				eventually(t, "it is connected again", func() bool {
					m := c.Masters()[0]
					return m.State == redlock.MasterUp || m.State == redlock.MasterQuarantined
				})
				key := "redlock:incarnation"
				if unguarded {
					key = "a"
					l := c.Locker("a")
					eventually(t, "the lock is had", l.TryLock)
				}
				for database := range 4 {
					found := has(t, s, database, key)
					if found != (database == home) {
						t.Errorf("database %d has the key %s: %t, want it in database %d alone", database, key, found, home)
					}
				}
			})
		}
	}
}

// has reports whether a database of a server has a key.
func has(t *testing.T, s *redisserver.Server, database int, key string) bool {
	t.Helper()
	conn, err := redis.Dial("tcp", s.Addr(), redis.DialDatabase(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	n, err := redis.Int(conn.Do("EXISTS", key))
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// Where SELECT is forbidden, the master does not vote, and says why.
func TestAConnectionWhoseDatabaseCannotBeChangedIsNotUsed(t *testing.T) {
	t.Parallel()
	s := redisserver.StartTB(t, 1)[0]
	if _, err := s.Do("ACL", "SETUSER", "limited", "on", ">pass", "+@all", "~*", "&*"); err != nil {
		t.Fatal(err)
	}
	p := newSharedPool(s.Addr(), redis.DialUsername("limited"), redis.DialPassword("pass"))
	defer p.Close()
	p.selects(t, 3)
	if _, err := s.Do("ACL", "SETUSER", "limited", "-select"); err != nil {
		t.Fatal(err)
	}
	c, err := redlock.New([]*redis.Pool{&p.Pool}, &redlock.Options{DisableWakeups: true, DisableRestartGuard: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const want = "a connection of the pool has database 3 instead of 0, and it cannot be changed: NOPERM"
	eventually(t, "the master says so", func() bool {
		m := c.Masters()[0]
		return m.State == redlock.MasterDown && m.Err != nil && len(m.Err.Error()) > len(want) && m.Err.Error()[:len(want)] == want
	})
}
