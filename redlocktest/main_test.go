package redlocktest_test

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	// Embedded masters allocate much. Fewer collections save a third of the time.
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}
