package contract_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// channels are the rights of a client to channels. When they are withdrawn, masters close its subscriptions, as ACL SETUSER does.
type channels struct {
	mu        sync.Mutex
	withdrawn bool
	open      []net.Conn // with a subscription
}

func (c *channels) withdraw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withdrawn = true
	for _, conn := range c.open {
		conn.Close()
	}
}

// A channelConn is a connection of a client with such rights.
type channelConn struct {
	net.Conn
	rights *channels
}

func (c channelConn) Write(p []byte) (int, error) {
	if subscribe := []byte("\r\nSUBSCRIBE\r\n"); bytes.Contains(p, subscribe) {
		c.rights.mu.Lock()
		defer c.rights.mu.Unlock()
		if c.rights.withdrawn {
			p = bytes.ReplaceAll(p, subscribe, []byte("\r\nNOPERMSUB\r\n"))
		} else {
			c.rights.open = append(c.rights.open, c.Conn)
		}
	}
	return c.Conn.Write(p)
}

// A busyConn is a connection of a client that a master cannot tell of grants, and that does not run until a time.
type busyConn struct {
	net.Conn
	until *atomic.Int64 // in Unix ns
}

func (c *busyConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if stop := time.Until(time.Unix(0, c.until.Load())); stop > 0 {
			time.Sleep(stop)
		}
		if err != nil || !bytes.Contains(p[:n], []byte("\r\n+ ")) {
			return n, err
		}
	}
}

// A client that has lost its right to channels hears of no recall, and its releases tell nobody of grants. It learns from the answers to its next
// renewal that another client waits, and gives the lock up then. That client finds its grant with a poll. Here it does not run for 600 ms just
// then.
func TestAKeptLockIsGivenUpAtTheNextRenewalAfterRightsToChannelsWereWithdrawn(t *testing.T) {
	const every = 10 * time.Second / 3
	for _, used := range []time.Duration{0, 700, 3100, 3200, 3334, 6600, 8300} { // ms, before the rights are withdrawn
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			var rights channels
			var stopped atomic.Int64
			opts := keeping(time.Hour)
			opts.Trace = &redlock.Trace{Released: func(context.Context, redlock.ReleasedInfo) {
				stopped.CompareAndSwap(0, time.Now().Add(600*time.Millisecond).UnixNano())
			}}
			a := openVia(t, ms, opts, func(ctx context.Context, i int) (net.Conn, error) {
				conn, err := ms.Master(i).Dial(ctx)
				return channelConn{conn, &rights}, err
			}).Locker("a")
			b := openVia(t, ms, nil, func(ctx context.Context, i int) (net.Conn, error) {
				conn, err := ms.Master(i).Dial(ctx)
				return &busyConn{conn, &stopped}, err
			}).Locker("a")
			time.Sleep(100 * time.Millisecond)
			locktest.Pass(a)
			ctx, stop := context.WithCancel(t.Context())
			var loop sync.WaitGroup
			loop.Go(func() {
				for a.LockContext(ctx) == nil {
					time.Sleep(time.Millisecond)
					a.Unlock()
					time.Sleep(time.Millisecond)
				}
			})
			time.Sleep(used * time.Millisecond)
			rights.withdraw()
			time.Sleep(200 * time.Millisecond)
			began := time.Now()
			b.Lock()
			if took := time.Since(began); took > every+900*time.Millisecond {
				t.Errorf("withdrawn after %v: the lock was had after %v, want %v, the stop and a poll at most", used*time.Millisecond, took, every)
			}
			b.Unlock()
			stop()
			loop.Wait()
		})
	}
}
