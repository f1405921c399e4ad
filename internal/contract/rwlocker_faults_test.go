package contract_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// holdings are the leases that goroutines hold at this moment, with how many goroutines hold each.
type holdings struct {
	*testing.T
	mu      sync.Mutex // guards what follows
	readers map[*redlock.Lease]int
	writers map[*redlock.Lease]int
	entered map[string]int // how many times each side was entered
}

func (h *holdings) enter(side string, of map[*redlock.Lease]int, s *redlock.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of[s]++
	h.entered[side]++
	h.checkLocked()
}

func (h *holdings) leave(of map[*redlock.Lease]int, s *redlock.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checkLocked()
	if of[s]--; of[s] == 0 {
		delete(of, s)
	}
}

// enough reports whether both sides were entered often.
func (h *holdings) enough() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.entered["read"] >= 30 && h.entered["write"] >= 3
}

// checkLocked fails the test if a writer's valid lease is not the only valid one.
func (h *holdings) checkLocked() {
	valid := func(of map[*redlock.Lease]int) (n int) {
		for s := range of {
			if s.Valid() {
				n++
			}
		}
		return n
	}
	if r, w := valid(h.readers), valid(h.writers); w > 1 || w == 1 && r > 0 {
		h.Errorf("%d writers and %d leases of readers are valid at one moment", w, r)
	}
}

// use locks both sides over and over until ctx ends.
func (h *holdings) use(ctx context.Context, l *redlock.RWLocker, random *rand.Rand) {
	for ctx.Err() == nil {
		side, locker, of := "read", l.RLocker(), h.readers
		if random.IntN(6) == 0 {
			side, locker, of = "write", l.Locker(), h.writers
		}
		patience := time.Duration(random.IntN(3000)) * time.Millisecond
		wait, cancel := context.WithTimeout(ctx, patience)
		err := locker.LockContext(wait)
		cancel()
		if err == nil {
			s := locker.Lease()
			h.enter(side, of, s)
			time.Sleep(time.Duration(random.ExpFloat64() * float64(20*time.Millisecond)))
			if random.IntN(40) == 0 {
				time.Sleep(4 * time.Second) // long enough to be renewed, or lost
			}
			h.leave(of, s)
			locker.UnlockContext(ctx)
		}
		time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
	}
}

// hurt makes one or two masters fail at a time, until ctx ends. Then it makes all masters work again.
func hurt(ctx context.Context, ms *redlocktest.Masters, random *rand.Rand) {
	for ctx.Err() == nil {
		m := ms.Master(random.IntN(ms.Len()))
		pause := time.Duration(random.IntN(1500)) * time.Millisecond
		switch random.IntN(6) {
		case 0:
			m.Freeze()
			time.Sleep(pause)
			m.Thaw()
		case 1:
			m.Forget()
		case 2:
			m.Cut()
		case 3:
			m.LoseReply("EVALSHA")
		case 4:
			m.DropRequest("SET")
		case 5:
			m.Stop()
			time.Sleep(pause)
			m.Start()
		}
		time.Sleep(pause)
	}
}

func TestNoWriterHoldsBesideOthersWhateverFails(t *testing.T) {
	for seed := range uint64(1) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: 2 * time.Second}, MaxTTL: 2 * time.Second}
				h := &holdings{T: t, readers: make(map[*redlock.Lease]int), writers: make(map[*redlock.Lease]int), entered: make(map[string]int)}
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				var all sync.WaitGroup
				for i := range uint64(4) {
					far := time.Duration(i) * time.Millisecond
					l := ms.WithDelays(far, 0, far/2, 2*far, 0).Open(opts).RWLocker("stock")
					for j := range uint64(2) {
						all.Go(func() { h.use(ctx, l, rand.New(rand.NewPCG(seed, 10*i+j))) })
					}
				}
				all.Go(func() { hurt(ctx, ms, rand.New(rand.NewPCG(seed, 99))) })
				all.Go(func() {
					for time.Sleep(8 * time.Second); !h.enough() && ctx.Err() == nil; {
						time.Sleep(time.Second)
					}
					stop()
				})
				all.Wait()
				if !h.enough() {
					t.Errorf("entered %v times, want more", h.entered)
				}
				t.Log("entered:", h.entered)
				time.Sleep(10 * time.Second) // quarantines end
				wantFree(t, ms, "stock")
				l := connected(t, ms, opts).RWLocker("stock")
				locktest.Pass(l)
				locktest.Pass(l.RLocker())
			})
		})
	}
}
