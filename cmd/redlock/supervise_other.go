//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package main

import (
	"os"
	"os/exec"
)

func ownProgram() (string, error) { return os.Executable() }

func detach(*exec.Cmd) {}
