package contract_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// A right is that of a user at a master, to subscribe.
type right struct {
	denied atomic.Bool
}

// A deniedConn is a connection of a user that may have no right to subscribe. The server answers by an error then.
type deniedConn struct {
	net.Conn
	right *right
}

func (c *deniedConn) Write(p []byte) (int, error) {
	if c.right.denied.Load() {
		p = bytes.ReplaceAll(p, []byte("\r\nSUBSCRIBE\r\n"), []byte("\r\nNOPERMSUB\r\n"))
	}
	n, err := c.Conn.Write(p)
	return n, err
}

// openWithRights returns a Client that may subscribe only where it has the right.
func openWithRights(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options) (*redlock.Client, []*right) {
	t.Helper()
	var pools []*redis.Pool
	var rights []*right
	for i := range ms.Len() {
		r := &right{}
		rights = append(rights, r)
		pools = append(pools, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			conn, err := ms.Master(i).Dial(ctx)
			if err != nil {
				return nil, err
			}
			return redis.NewConn(&deniedConn{conn, r}, 0, 0), nil
		}})
	}
	c, err := redlock.New(pools, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, rights
}

// Clients that poll get their turns beside clients that are granted the lock, and do not hold those up.
func TestClientsThatPollTakeTurnsWithThoseThatAreGranted(t *testing.T) {
	noWakeups, unrenewed := &redlock.Options{DisableWakeups: true}, &redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}
	for _, row := range []struct {
		name            string
		opts            *redlock.Options // of those that poll
		denied          int              // at how many of five masters they may not subscribe
		pollers, others int
	}{
		{"one without wake-ups", noWakeups, 0, 1, 2},
		{"two without wake-ups", noWakeups, 0, 2, 1},
		{"one without a subscription", nil, 5, 1, 2},
		{"two without a subscription", nil, 5, 2, 1},
		{"a subscription at one master", nil, 4, 1, 2},
		{"a subscription at one master, without renewal", unrenewed, 4, 1, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				ms = ms.WithDelays(1e6, 1e6, 1e6, 1e6, 1e6)
				var all []*redlock.Client
				for range row.pollers {
					c, rights := openWithRights(t, ms, row.opts)
					for _, r := range rights[:row.denied] {
						r.denied.Store(true)
					}
					all = append(all, c)
				}
				for range row.others {
					all = append(all, ms.Open(nil))
				}
				time.Sleep(2 * time.Second)
				turns, longest := loops(t, 4*time.Second, all...)
				t.Logf("turns %v, longest waits %v", turns, longest)
				for i := range all {
					least, most := 2, 3*time.Second // they queue after a second
					if i >= row.pollers {
						least, most = 10, time.Second // a lock is reserved for those that poll for up to 400 ms
					}
					if turns[i] < least || longest[i] > most {
						t.Errorf("client %d had %d turns and waited for up to %v, want %d or more, and %v at most", i, turns[i], longest[i], least, most)
					}
				}
			})
		})
	}
}
