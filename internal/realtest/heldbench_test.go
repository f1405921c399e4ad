//go:build unix

package realtest_test

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// BenchmarkHeldLeases holds leases with a TTL of 10 s on five real masters for
// 30 s, and reports what that costs: the client's share of a core, script calls
// a second at one master, and memory for each lease. Run it with -benchtime 1x.
func BenchmarkHeldLeases(b *testing.B) {
	for _, leases := range []int{1, 1000, 10_000} {
		b.Run(fmt.Sprint(leases), func(b *testing.B) {
			servers := redisserver.AdoptedTB(b, 5)
			c := openReal(b, servers, nil)
			before := liveHeap()
			var wg sync.WaitGroup
			for g := range 50 {
				wg.Go(func() {
					for i := g; i < leases; i += 50 {
						c.Locker(fmt.Sprint("held", i)).Lock()
					}
				})
			}
			wg.Wait()
			memory := liveHeap() - before
			calls, cpu, start := calls(b, servers[0], "evalsha"), processorTime(), time.Now()
			for b.Loop() {
				time.Sleep(30 * time.Second)
			}
			took := time.Since(start).Seconds()
			b.ReportMetric(100*(processorTime()-cpu).Seconds()/took, "%core")
			b.ReportMetric(float64(infoNumber(b, servers[0], "commandstats", "cmdstat_evalsha:calls=")-calls)/took, "scripts-and-probes/s")
			b.ReportMetric(float64(memory)/float64(leases), "B/lease")
			keys := 0
			for _, s := range servers {
				n, err := redis.Int(s.Do("DBSIZE"))
				if err != nil {
					b.Error(err)
				}
				keys += n
			}
			if keys < 3*leases {
				b.Errorf("%d keys are left, want those of %d leases on three masters at least", keys, leases)
			}
		})
	}
}

// BenchmarkClient opens a Client on five real masters, has it lock and unlock once, and lets it idle for 30 s. It reports what that
// costs: goroutines and memory of the process, connections to a master, the client's share of a core, commands a second at a master,
// and what a master needs for the scripts. Run it with -benchtime 1x.
func BenchmarkClient(b *testing.B) {
	servers := redisserver.AdoptedTB(b, 5)
	const section, clients, scripts = "clients", "connected_clients:", "used_memory_scripts_eval:"
	goroutines, memory := runtime.NumGoroutine(), liveHeap()
	connections, text := infoNumber(b, servers[0], section, clients), infoNumber(b, servers[0], "memory", scripts)
	c := openReal(b, servers, nil)
	mu := c.Locker("one")
	if !mu.TryLock() {
		b.Fatal("a free lock was not acquired")
	}
	mu.Unlock()
	time.Sleep(2 * time.Second) // what the first connection began has ended
	goroutines, memory = runtime.NumGoroutine()-goroutines, liveHeap()-memory
	connections = infoNumber(b, servers[0], section, clients) - connections
	text = infoNumber(b, servers[0], "memory", scripts) - text
	list, err := redis.String(servers[0].Do("CLIENT", "LIST"))
	if err != nil {
		b.Fatal(err)
	}
	b.Log(list)
	before, cpu, start := infoNumber(b, servers[0], "stats", "total_commands_processed:"), processorTime(), time.Now()
	for b.Loop() {
		time.Sleep(30 * time.Second)
	}
	took := time.Since(start).Seconds()
	b.ReportMetric(100*(processorTime()-cpu).Seconds()/took, "%core")
	b.ReportMetric(float64(infoNumber(b, servers[0], "stats", "total_commands_processed:")-before)/took, "commands/s")
	b.ReportMetric(float64(goroutines), "goroutines")
	b.ReportMetric(float64(memory), "B")
	b.ReportMetric(float64(connections), "connections/master")
	b.ReportMetric(float64(text), "B-scripts/master")
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func processorTime() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
