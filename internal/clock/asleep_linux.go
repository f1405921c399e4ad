package clock

import (
	"syscall"
	"time"
	"unsafe"
)

// Clock ids of clock_gettime(2).
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// A reading is used if both clocks were read within gap of each other. If the goroutine is preempted between
// the two, the pause would look like sleep.
const (
	gap   = 100 * time.Microsecond
	tries = 5
)

// asleep returns how long the machine has been suspended since it booted, in whole milliseconds:
// CLOCK_BOOTTIME counts that time, CLOCK_MONOTONIC does not. Rounding removes the nanoseconds between the two
// calls.
//
// The two clocks are subtracted here, not used as a third clock. So a test in a synctest bubble, where
// time.Now is not the machine's time, sees no sleep at all.
func asleep() time.Duration {
	var d time.Duration
	for range tries {
		before, ok1 := gettime(clockMonotonic)
		boot, ok2 := gettime(clockBoottime)
		after, ok3 := gettime(clockMonotonic)
		if !ok1 || !ok2 || !ok3 {
			return 0
		}
		if d = boot - after; after-before < gap {
			break
		}
	}
	return d.Round(time.Millisecond)
}

func gettime(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
