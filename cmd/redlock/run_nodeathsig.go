//go:build darwin || netbsd || openbsd || dragonfly

package main

import "syscall"

// dieWithUs does nothing: on this system the command continues if redlock is killed.
func dieWithUs(*syscall.SysProcAttr) {}
