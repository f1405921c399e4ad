//go:build !unix

package stall

import "time"

var started = time.Now()

// processorTime returns half of the time for which the process runs: how much processor time it has used is not known. So
// only the limit counts.
func processorTime() time.Duration { return time.Since(started) / 2 }
