package redlock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// BenchmarkLockUnlock reports the median of an uncontended lock and unlock on
// five real masters, healthy and with a minority frozen or dead.
func BenchmarkLockUnlock(b *testing.B) {
	for _, row := range []struct {
		name  string
		fault func(servers []*redisserver.Server)
	}{
		{"healthy", func([]*redisserver.Server) {}},
		{"two frozen", func(servers []*redisserver.Server) {
			servers[0].Freeze()
			servers[1].Freeze()
		}},
		{"two killed", func(servers []*redisserver.Server) {
			servers[0].Kill()
			servers[1].Kill()
		}},
	} {
		b.Run(row.name, func(b *testing.B) {
			servers := redisserver.AdoptedTB(b, 5)
			l := openReal(b, servers, nil).Locker("a")
			row.fault(servers)
			var times []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				pass(l)
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "µs/p50")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "µs/p99")
		})
	}
}
