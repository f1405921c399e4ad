//go:build !linux

package clock

import "time"

// asleep returns 0: on systems other than Linux only the wall clock shows a sleep. (Darwin's monotonic clock,
// as Go reads it, stops in a sleep, too. That of Windows does not.)
func asleep() time.Duration { return 0 }
