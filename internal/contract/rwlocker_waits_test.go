package contract_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// TestReadersAndWritersThatNeverStopWaitForAFewRoundTrips measures waits in virtual time, in which computing takes none.
// Everybody holds for 1 ms and locks again at once. bench has the same workload on real servers.
func TestReadersAndWritersThatNeverStopWaitForAFewRoundTrips(t *testing.T) {
	equal := func(int) time.Duration { return 500 * time.Microsecond }
	unequal := func(i int) time.Duration { return time.Duration(1+i) * 100 * time.Microsecond }
	for _, test := range []struct {
		name                  string
		reading, each, writes int // processes of readers, goroutines in each, and processes of writers
		far                   func(process int) time.Duration
		reader, writer        time.Duration // the longest waits
	}{
		{"one writer", 4, 3, 1, equal, 10 * time.Millisecond, 20 * time.Millisecond},
		{"eight writers at unequal distances", 2, 1, 8, unequal, 200 * time.Millisecond, 200 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				var loops []func(end time.Time)
				var mu sync.Mutex
				var reads, writes []time.Duration // waits
				loop := func(l *redlock.Locker, waits *[]time.Duration) {
					loops = append(loops, func(end time.Time) {
						for time.Now().Before(end) {
							began := time.Now()
							l.Lock()
							waited := time.Since(began)
							mu.Lock()
							*waits = append(*waits, waited)
							mu.Unlock()
							time.Sleep(time.Millisecond)
							l.Unlock()
						}
					})
				}
				for i := range test.reading {
					l := openAt(ms, test.far(i), nil).RWLocker("stock")
					for range test.each {
						loop(l.RLocker(), &reads)
					}
				}
				for i := range test.writes {
					loop(openAt(ms, test.far(i), nil).RWLocker("stock").Locker(), &writes)
				}
				var all sync.WaitGroup
				end := time.Now().Add(100 * time.Millisecond)
				for _, loop := range loops {
					all.Go(func() { loop(end) })
				}
				all.Wait()
				t.Logf("%d reads, longest wait %v; %d writes, longest wait %v", len(reads), slices.Max(reads), len(writes), slices.Max(writes))
				if slices.Max(reads) > test.reader || slices.Max(writes) > test.writer {
					t.Errorf("longest waits = %v of a reader, %v of a writer, want %v and %v at most", slices.Max(reads), slices.Max(writes), test.reader, test.writer)
				}
			})
		})
	}
}
