package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// now returns CLOCK_MONOTONIC in nanoseconds. All processes of a machine share this clock, so
// times that different clients recorded can be compared.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the arguments are valid
	}
	return ts.Nano()
}

// seconds returns a duration in nanoseconds as seconds.
func seconds(ns int64) float64 { return float64(ns) / float64(time.Second) }
