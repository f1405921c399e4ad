package history

import (
	"syscall"
	"unsafe"
)

// Clock names the clock of Now.
const Clock = "CLOCK_MONOTONIC"

const clockMonotonic = 1 // of clock_gettime(2)

// Now returns the time of CLOCK_MONOTONIC in nanoseconds. All processes of a machine share this clock, so
// times that different clients recorded can be compared.
func Now() int64 {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno) // the arguments are valid
	}
	return ts.Nano()
}
