package realtest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// BenchmarkLockUnlock reports the median of an uncontended lock and unlock on
// five real masters, healthy and with a minority frozen or dead.
func BenchmarkLockUnlock(b *testing.B) {
	for _, row := range []struct {
		name  string
		names int
		fault func(servers []*redisserver.Server)
	}{
		{"healthy", 1, func([]*redisserver.Server) {}},
		{"changing names", 512, func([]*redisserver.Server) {}},
		{"two frozen", 1, func(servers []*redisserver.Server) {
			servers[0].Freeze()
			servers[1].Freeze()
		}},
		{"two killed", 1, func(servers []*redisserver.Server) {
			servers[0].Kill()
			servers[1].Kill()
		}},
	} {
		b.Run(row.name, func(b *testing.B) {
			servers := redisserver.AdoptedTB(b, 5)
			c := openReal(b, servers, nil)
			var lockers []*redlock.Locker
			for i := range row.names {
				lockers = append(lockers, c.Locker(fmt.Sprint("a", i)))
			}
			row.fault(servers)
			var times []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				locktest.Pass(lockers[len(times)%row.names])
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "µs/p50")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "µs/p99")
		})
	}
}
