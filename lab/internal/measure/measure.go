// Package measure says what this process has used.
package measure

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the CPU time that this process has used.
func CPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprintf("measure: getrusage: %v", err))
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Memory returns the bytes that live objects and stacks take.
func Memory() int64 {
	runtime.GC()
	runtime.GC() // for what the first collection's finalizers freed
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc + s.StackInuse)
}

// Clock returns the time of CLOCK_MONOTONIC in ns. All processes of a machine share it.
func Clock() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("measure: no monotonic clock: %v", err))
	}
	return t.Nano()
}

// ForAll calls f with 0 to n-1, from several goroutines. A goroutine ends at its first error; ForAll returns one of these.
func ForAll(n, goroutines int, f func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for k := range goroutines {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < n && errs[k] == nil; i = int(next.Add(1) - 1) {
				errs[k] = f(i)
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}
