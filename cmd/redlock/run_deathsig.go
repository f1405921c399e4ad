//go:build linux || freebsd

package main

import "syscall"

// dieWithUs has the kernel kill the command when redlock dies, however that happens: nobody
// would be left to end it with the lease. It reaches the command alone, not its children,
// nor one that runs with other rights.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
