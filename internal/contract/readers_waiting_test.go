package contract_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// A reader that cannot be told of a grant, or not be sure of it, has its turns all the same beside writers that never stop.
func TestAReaderThatIsNotToldOfAGrantFindsIt(t *testing.T) {
	short := &redlock.Options{LockOptions: redlock.LockOptions{TTL: 300 * time.Millisecond}}
	unrenewed := &redlock.Options{LockOptions: redlock.LockOptions{TTL: 700 * time.Millisecond, RenewEvery: -1}}
	for _, row := range []struct {
		name            string
		writers, reader *redlock.Options
		hidden          bool // the masters tell nobody their run_ids
		denied          int  // at so many masters the reader may not subscribe
		most            time.Duration
	}{
		{"a short TTL, beside writers that are granted the lock", nil, short, false, 0, 100 * time.Millisecond},
		{"a short TTL, beside writers with one", short, short, false, 0, 100 * time.Millisecond},
		{"a short TTL without renewal", nil, unrenewed, false, 0, 100 * time.Millisecond},
		{"INFO is forbidden", nil, nil, true, 0, 100 * time.Millisecond},
		{"one master without a subscription", nil, nil, false, 1, 100 * time.Millisecond},
		{"most masters without a subscription", nil, nil, false, 3, 2 * time.Second}, // its claim joins the queue after a second
		{"no master with a subscription", nil, nil, false, 5, 2 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				d := time.Millisecond
				ms = ms.WithDelays(d, d, d, d, d)
				open := func(opts *redlock.Options) *redlock.Client {
					if row.hidden {
						return openVia(t, ms, opts, func(ctx context.Context, i int) (net.Conn, error) {
							conn, err := ms.Master(i).Dial(ctx)
							return noInfo{conn}, err
						})
					}
					return ms.Open(opts)
				}
				var writers []*redlock.RWLocker
				for range 3 {
					writers = append(writers, open(row.writers).RWLocker("stock"))
				}
				c := open(row.reader)
				if row.denied > 0 {
					var rights []*right
					c, rights = openWithRights(t, ms, row.reader)
					for _, r := range rights[:row.denied] {
						r.denied.Store(true)
					}
				}
				time.Sleep(2 * time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
				defer cancel()
				var all sync.WaitGroup
				for _, l := range writers {
					all.Go(func() {
						for l.LockContext(ctx) == nil {
							time.Sleep(5 * time.Millisecond)
							l.Unlock()
						}
					})
				}
				reads, longest := 0, time.Duration(0)
				for l := c.RWLocker("stock"); ; reads++ {
					began := time.Now()
					err := l.RLockContext(ctx)
					longest = max(longest, time.Since(began))
					if err != nil {
						break
					}
					time.Sleep(5 * time.Millisecond)
					l.RUnlock()
					time.Sleep(5 * time.Millisecond)
				}
				all.Wait()
				t.Logf("%d reads, longest wait %v", reads, longest)
				if longest > row.most {
					t.Errorf("the reader has waited for up to %v, want %v at most", longest, row.most)
				}
			})
		})
	}
}
