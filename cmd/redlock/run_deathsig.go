//go:build linux || freebsd

package main

import "syscall"

// dieWithUs makes the kernel kill the command when redlock ends for any reason: nothing else would
// end the command with the lease. The kernel kills only the command, not its children, and not a
// command of another user.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
