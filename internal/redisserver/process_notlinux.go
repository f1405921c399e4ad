//go:build !linux

package redisserver

import "os/exec"

// startChild starts cmd. On this system nothing ends cmd when this process ends.
func startChild(cmd *exec.Cmd) error { return cmd.Start() }

// awaitStopped does nothing: it relies on the signal to have stopped the process.
func awaitStopped(int) error { return nil }
