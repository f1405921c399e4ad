//go:build !linux

package history

import "time"

// Clock names the clock of Now.
const Clock = "the wall clock"

// Now returns the wall clock in nanoseconds. Go gives no other clock here that all processes of a machine share. If it
// is set while clients record, their times must not be compared.
func Now() int64 { return time.Now().UnixNano() }
