//go:build unix

package stall

import (
	"syscall"
	"time"
)

// processorTime returns how much processor time the process has used.
func processorTime() time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
