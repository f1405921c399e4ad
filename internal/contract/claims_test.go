package contract_test

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// passed has a waiter with these options get the lock from another client, and returns the waiter's Locker and how many
// scripts a master has executed for that. A release in two leaves the lock open here.
func passed(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options) (waiter *redlock.Locker, scripts int) {
	t.Helper()
	return passedTo(t, ms, connected(t, ms, opts))
}

// passedTo is passed for a Client that waits.
func passedTo(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) (waiter *redlock.Locker, scripts int) {
	t.Helper()
	holder := connected(t, ms, nil).Locker("a")
	waiter = c.Locker("a")
	take(holder)
	in := locktest.Enter(waiter)
	queued(t, ms, "a", 1)
	before := ms.Master(0).Count("EVALSHA")
	released := time.Now()
	holder.Unlock()
	if took := (<-in).Sub(released); took != 0 {
		t.Errorf("the waiter entered %v after the release, want at once", took)
	}
	synctest.Wait()
	return waiter, ms.Master(0).Count("EVALSHA") - before
}

// granted is passed until a release has granted the lock: its script is then the only one.
func granted(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options) *redlock.Locker {
	t.Helper()
	for range 100 {
		l, scripts := passed(t, ms, opts)
		if scripts == 1 {
			return l
		}
		l.Unlock()
		synctest.Wait()
	}
	t.Fatal("none of 100 releases has granted the lock to the waiter")
	return nil
}

func TestAGrantedLeaseIsShortUntilItsFirstRenewal(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{MaxHold: time.Millisecond}}
		l := granted(t, ms, opts)
		s := l.Lease()
		if left := time.Until(s.Until()); left <= 0 || left > 400*time.Millisecond {
			t.Errorf("a lease that was granted is valid for %v, want 400ms at most", left)
		}
		time.Sleep(200 * time.Millisecond)
		if left := time.Until(s.Until()); left < 9*time.Second {
			t.Errorf("after the first renewal the lease is valid for %v, want the TTL whatever MaxHold is", left)
		}
		time.Sleep(9 * time.Second)
		if left := time.Until(s.Until()); left > time.Second {
			t.Errorf("the lease is valid for %v more, want no second renewal after MaxHold", left)
		}
		l.Unlock()
	})
}

func TestALockIsNotGrantedToALeaseThatIsNotRenewed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}
		for range 10 {
			l, _ := passed(t, ms, opts)
			if left := time.Until(l.Lease().Until()); left < 9*time.Second {
				t.Fatalf("the lease is valid for %v, want the TTL", left)
			}
			l.Unlock()
			synctest.Wait()
		}
	})
}

// A client that cannot tell the memories of a majority of masters apart is woken instead of being granted the lock.
func TestALockIsNotGrantedWhereMastersHideTheirRunIDs(t *testing.T) {
	for _, row := range []struct {
		name    string
		hide    []int // masters
		granted bool
	}{
		{"all hide it", []int{0, 1, 2}, false},
		{"a majority hides it", []int{0, 2}, false},
		{"a minority hides it", []int{1}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				c := openVia(t, ms, nil, func(ctx context.Context, i int) (net.Conn, error) {
					conn, err := ms.Master(i).Dial(ctx)
					if slices.Contains(row.hide, i) {
						conn = noInfo{conn}
					}
					return conn, err
				})
				for n := range 100 {
					l, _ := passedTo(t, ms, c)
					switch left := time.Until(l.Lease().Until()); {
					case row.granted && left <= 400*time.Millisecond, !row.granted && n == 5:
						return
					case !row.granted && left < 9*time.Second:
						t.Fatalf("the lease is valid for %v, want the TTL", left)
					}
					l.Unlock()
					synctest.Wait()
				}
				t.Error("none of 100 releases has granted the lock to the waiter")
			})
		})
	}
}

// Masters in quarantine cannot grant the lock. A client that begins to wait then is granted it afterwards all the same.
func TestAWaitThatBeganInAQuarantineIsGrantedTheLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, nil), connected(t, ms, nil)
		for i := range 2 {
			ms.Master(i).Stop()
			ms.Master(i).Start()
		}
		time.Sleep(5 * time.Second)
		if n := locktest.States(a, redlock.MasterQuarantined); n != 2 {
			t.Fatalf("%d masters are in quarantine, want 2", n)
		}
		first, second := locktest.Enter(a.Locker("a")), locktest.Enter(b.Locker("a"))
		select {
		case <-first:
		case <-second:
		}
		queued(t, ms, "a", 1)
		time.Sleep(time.Second)
		if member := queueHead(t, ms, "a"); len(strings.Fields(member)) != 3 {
			t.Errorf("the queue has the member %q, want a claim", member)
		}
	})
}

// A noInfo is a connection through a proxy that forbids INFO.
type noInfo struct{ net.Conn }

func (c noInfo) Write(p []byte) (int, error) {
	return c.Conn.Write(bytes.ReplaceAll(p, []byte("$4\r\nINFO\r\n"), []byte("$4\r\nNONE\r\n")))
}
