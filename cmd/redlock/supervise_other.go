//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package main

import (
	"os"
	"os/exec"
)

// supervised says whether processes have a supervisor here. On this system redlock does not reach the processes that others have started.
const supervised = false

func ownProgram() (string, error) { return os.Executable() }

func detach(*exec.Cmd) {}

func superviseProcesses() {}
