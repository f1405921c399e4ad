package contract_test

//lint:file-ignore SA2001 A benchmark or a test locks and unlocks, with nothing between.

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// keptLocks returns Lockers of n names that a Client keeps, on masters of their own: what embedded masters do costs the more
// processor time the more keys they have.
func keptLocks(b *testing.B, n int) (*redlock.Client, []*redlock.Locker) {
	c := redlocktest.StartN(b, 3).Open(keeping(time.Hour))
	lockers := make([]*redlock.Locker, n)
	for i := range lockers {
		lockers[i] = c.Locker(fmt.Sprint("stock", i))
		for range 2 {
			lockers[i].Lock()
			lockers[i].Unlock()
		}
	}
	return c, lockers
}

// BenchmarkKeptLock locks and unlocks locks that are kept. time.Now, most of what that costs, and sync.Mutex are there to
// compare with.
func BenchmarkKeptLock(b *testing.B) {
	c, own := keptLocks(b, 1)
	l := own[0]
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Lock()
			l.Unlock()
		}
	})
	b.Run("lease", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Lock()
			_ = l.Lease()
			l.Unlock()
		}
	})
	for _, keeps := range []bool{true, false} {
		name := fmt.Sprintf("goroutines=64/kept=%t", keeps)
		l := l
		if !keeps {
			opts := redlock.LockOptions{Handover: time.Hour}
			l, _ = c.NewLocker("other", &opts)
		}
		b.Run(name, func(b *testing.B) { contend(b, l) })
	}
	b.Run("names=512", func(b *testing.B) {
		_, lockers := keptLocks(b, 512)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			lockers[i%512].Lock()
			lockers[i%512].Unlock()
		}
	})
	b.Run("time.Now", func(b *testing.B) {
		for b.Loop() {
			_ = time.Now()
		}
	})
	b.Run("sync.Mutex", func(b *testing.B) {
		var mu sync.Mutex
		for b.Loop() {
			mu.Lock()
			mu.Unlock() //nolint:staticcheck // nothing is to be guarded
		}
	})
}

// contend has 64 goroutines lock and unlock l.
func contend(b *testing.B, l *redlock.Locker) {
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Lock()
			l.Unlock()
		}
	})
}
