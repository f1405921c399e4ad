//go:build !linux

package redisserver

import (
	"io"
	"os/exec"
)

// reserve does nothing: on this system a new server may take the port of one that a test has killed.
func reserve(int) (io.Closer, error) { return io.NopCloser(nil), nil }

// startChild starts cmd. On this system nothing ends cmd when this process ends.
func startChild(cmd *exec.Cmd) error { return cmd.Start() }

// awaitStopped does nothing: it relies on the signal to have stopped the process.
func awaitStopped(int) error { return nil }
