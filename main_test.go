package redlock_test

import (
	"io"
	"log/slog"
	"os"
	"testing"
)

// TestMain discards the log. Tests of the Logger set their own.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}
