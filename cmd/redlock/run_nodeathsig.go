//go:build darwin || netbsd || openbsd || dragonfly

package main

import "syscall"

// dieWithUs does nothing: a command outlives a redlock that is killed here.
func dieWithUs(*syscall.SysProcAttr) {}
