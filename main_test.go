package redlock_test

import (
	"io"
	"log/slog"
	"os"
	"testing"
)

// TestMain lets the test binary play other processes: see spawn.
func TestMain(m *testing.M) {
	// Tests of faults would fill the screen with what they cause on purpose;
	// those that are about the Logger bring their own.
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(roles[role]())
	}
	os.Exit(m.Run())
}
