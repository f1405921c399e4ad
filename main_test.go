package redlock_test

import (
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"testing"
)

// TestMain discards the log. Tests of the Logger set their own.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	// Each script call of an embedded master allocates a Lua machine. Fewer collections save a third of the time.
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}
