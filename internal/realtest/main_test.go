package realtest_test

import (
	"flag"
	"io"
	"log/slog"
	"os"
	"testing"
)

// TestMain discards the log, and lets the test binary play other processes: see spawn.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(roles[role]())
	}
	// The tests wait more than they compute.
	flag.Parse()
	flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}
