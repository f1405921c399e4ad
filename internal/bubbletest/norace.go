//go:build !race

package bubbletest

// RaceEnabled says whether the race detector is built in.
const RaceEnabled = false
