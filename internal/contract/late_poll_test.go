package contract_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// These tests are about polls that are executed when their claim has become a lease.

// A dam keeps back the commands that a client sends to some masters. What masters publish to it passes.
type dam struct {
	mu   sync.Mutex    // guards what follows
	shut chan struct{} // nil: it is open
	kept int           // how many writes it keeps back
}

// close makes the dam keep back what comes, until the returned function is called or the test ends.
func (d *dam) close(t *testing.T) (open func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	shut := make(chan struct{})
	d.shut, d.kept = shut, 0
	open = sync.OnceFunc(func() {
		d.mu.Lock()
		d.shut = nil
		d.mu.Unlock()
		close(shut)
	})
	t.Cleanup(open)
	return open
}

// keeps reports how many writes the dam keeps back.
func (d *dam) keeps() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept
}

// A dammedConn is a connection behind a dam.
type dammedConn struct {
	net.Conn
	dam        *dam
	subscribes bool // the writer's
}

func (c *dammedConn) Write(p []byte) (int, error) {
	c.subscribes = c.subscribes || strings.Contains(string(p), "\r\nSUBSCRIBE\r\n")
	c.dam.mu.Lock()
	shut := c.dam.shut
	if shut != nil && !c.subscribes {
		c.dam.kept++
	}
	c.dam.mu.Unlock()
	if shut != nil && !c.subscribes {
		<-shut
	}
	return c.Conn.Write(p)
}

// wonBehindADam returns a Locker for "a" whose claim was granted the lock while the dam keeps back its poll to the first
// masters. If local is set, a second goroutine of the Client waits for it. open opens the dam.
func wonBehindADam(t *testing.T, ms *redlocktest.Masters, masters int, local bool) (l *redlock.Locker, next <-chan *redlock.Lease, open func()) {
	t.Helper()
	d := new(dam)
	c := openVia(t, ms, nil, func(ctx context.Context, i int) (net.Conn, error) {
		conn, err := ms.Master(i).Dial(ctx)
		if i < masters && err == nil {
			conn = &dammedConn{Conn: conn, dam: d}
		}
		return conn, err
	})
	holder, l := connected(t, ms, nil).Locker("a"), c.Locker("a")
	for range 50 {
		take(holder)
		in := locktest.Enter(l)
		queued(t, ms, "a", 1)
		open = d.close(t)
		for began := time.Now(); d.keeps() < masters; time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Second {
				t.Fatal("no poll was sent within a second")
			}
		}
		holder.Unlock()
		synctest.Wait()
		select {
		case <-in:
			if local {
				next = queueUp(l, 1, 2*time.Second)
			}
			return l, next, open
		default: // the release has left the lock open
		}
		open()
		<-in
		l.Unlock()
		synctest.Wait()
	}
	t.Fatal("none of 50 releases has granted the lock to the waiter")
	return nil, nil, nil
}

// losesItToAnother has another client acquire the lock of l, whose keys are gone, and release it.
func losesItToAnother(t *testing.T, ms *redlocktest.Masters) {
	t.Helper()
	for i := range ms.Len() {
		ms.Master(i).Del("a")
	}
	other := connected(t, ms, nil).Locker("a")
	if !other.TryLock() {
		t.Fatal("TryLock = false although all keys are gone")
	}
	if err := other.UnlockContext(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Late polls set the keys again after another client has had the lock. The lease must not be renewed with these keys.
func TestALeaseIsLostIfLatePollsFindItsKeysGone(t *testing.T) {
	for _, row := range []struct {
		name    string
		masters int // at which the polls come late
	}{{"at a quorum", 2}, {"at all masters", 3}} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				l, _, open := wonBehindADam(t, ms, row.masters, false)
				s := l.Lease()
				losesItToAnother(t, ms)
				time.Sleep(50 * time.Millisecond)
				if err := s.Err(); err != nil {
					t.Fatalf("the lease has ended before the polls came: %v", err)
				}
				open()
				time.Sleep(time.Second)
				if err := s.Err(); !errors.Is(err, redlock.ErrLost) {
					t.Errorf("another client has had the lock, and the lease says %v, want ErrLost", err)
				}
			})
		})
	}
}

func TestALeaseThatWasHandedOverIsLostIfLatePollsFindItsKeysGone(t *testing.T) {
	oftenEnough(t, func(t *testing.T, ms *redlocktest.Masters) {
		l, next, open := wonBehindADam(t, ms, 2, true)
		token := l.Lease().Token()
		l.Unlock()
		s := <-next
		if s.Token() != token {
			t.Fatal("the lease was not handed over")
		}
		losesItToAnother(t, ms)
		open()
		time.Sleep(time.Second)
		if err := s.Err(); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("another client has had the lock, and the lease says %v, want ErrLost", err)
		}
		time.Sleep(2 * time.Second) // the holder unlocks
	})
}

// One connection stands still until the key there has expired, while the lease is renewed at the others.
func TestALatePollDoesNotEndALeaseThatIsRenewed(t *testing.T) {
	for _, stall := range []time.Duration{50 * time.Millisecond, 450 * time.Millisecond, 600 * time.Millisecond, 800 * time.Millisecond} {
		t.Run(stall.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				l, _, open := wonBehindADam(t, ms, 1, false)
				s := l.Lease()
				time.Sleep(stall)
				open()
				for range 50 {
					time.Sleep(100 * time.Millisecond)
					if err := s.Err(); err != nil {
						t.Fatalf("the lease was lost at one master only: %v", err)
					}
				}
				for i, token := range ms.Get("a") {
					if token != s.Token() {
						t.Errorf("master %d keeps %q, want the token of the lease", i, token)
					}
				}
				l.Unlock()
			})
		})
	}
}
