//go:build unix

package realtest_test

//lint:file-ignore SA2001 A benchmark locks and unlocks, with nothing between.

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// BenchmarkProcessorTime reports the processor time of the client for locks that are not kept, on three real masters. On a busy machine, that
// differs less than the time on the wall. .ci/again runs it at other commits.
func BenchmarkProcessorTime(b *testing.B) {
	servers := redisserver.AdoptedTB(b, 3)
	c := openReal(b, servers, nil)
	handover, err := c.NewLocker("handover", &redlock.LockOptions{Handover: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	handedOver := func(goroutines int) func(n int) {
		return func(n int) {
			var all sync.WaitGroup
			for range goroutines {
				all.Go(func() {
					for range n / goroutines {
						locktest.Pass(handover)
					}
				})
			}
			all.Wait()
		}
	}
	lockers := make([]*redlock.Locker, 512)
	for i := range lockers {
		lockers[i] = c.Locker(fmt.Sprint("n", i))
	}
	rw := c.RWLocker("read")
	for _, row := range []struct {
		name string
		run  func(n int)
	}{
		{"one-name", func(n int) {
			for range n {
				locktest.Pass(lockers[0])
			}
		}},
		{"512-names", func(n int) {
			for i := range n {
				locktest.Pass(lockers[i%len(lockers)])
			}
		}},
		{"RLock", func(n int) {
			for range n {
				rw.RLock()
				rw.RUnlock()
			}
		}},
		{"handover-2-goroutines", handedOver(2)},
		{"handover-64-goroutines", handedOver(64)},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			before := processorTime()
			row.run(b.N)
			b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
