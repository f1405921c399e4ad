package contract_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// The masters do not know how often a writer's lease was handed over.
func TestAReadersFenceIsNotBelowThatOfAWriterWhoseLeaseWasHandedOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{Fencing: true}}
		a, b := connected(t, ms, opts).RWLocker("stock"), connected(t, ms, opts).RWLocker("stock")
		var last uint64
		a.Lock()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				a.Lock()
				last = a.Locker().Lease().Fence()
				a.Unlock()
			})
		}
		synctest.Wait()
		a.Unlock()
		all.Wait()
		if last&1023 != 3 {
			t.Fatalf("the last writer's fence is %d, want one of a lease that was handed over three times", last)
		}
		b.RLock()
		read := b.RLocker().Lease().Fence()
		b.RUnlock()
		a.Lock()
		next := a.Locker().Lease().Fence()
		a.Unlock()
		if read < last || next <= read {
			t.Errorf("fences of a writer, a reader and a writer: %d, %d, %d", last, read, next)
		}
	})
}

// The masters that gave a writer its number lose it, and those that are left have an earlier one.
func TestAReadersFenceIsNotBelowThatOfAWriterWhoseMastersHaveLostIt(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second, Fencing: true}, MaxTTL: time.Second}
		a, b := connected(t, ms, opts).RWLocker("stock"), connected(t, ms, opts).RWLocker("stock")
		write := func() uint64 {
			a.Lock()
			defer a.Unlock()
			return a.Locker().Lease().Fence()
		}
		write()
		synctest.Wait()
		for i := range 2 {
			ms.Master(i).Stop()
		}
		time.Sleep(time.Second)
		last := write()
		synctest.Wait()
		for i := range 2 {
			ms.Master(i).Start()
		}
		for i := 2; i < 4; i++ {
			ms.Master(i).Stop()
			ms.Master(i).Forget()
			ms.Master(i).Start()
		}
		ms.Master(4).Stop()
		b.RLock() // when the quarantines are over
		read := b.RLocker().Lease().Fence()
		b.RUnlock()
		if next := write(); read < last || next <= read {
			t.Errorf("fences of a writer, a reader and a writer: %d, %d, %d", last, read, next)
		}
	})
}
