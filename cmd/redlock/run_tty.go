//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// A terminal is the one that controls this process. Only its foreground process group can
// read it and hears Ctrl-C, and a command in a group of its own is not that by itself:
//
//   - redlock in the foreground, with a terminal for input and output, puts the command there
//     at once, as a shell does;
//   - in a pipeline, as in `redlock run x -- make | less`, it does not: less needs the
//     terminal. If the command asks for it, it is stopped by the kernel, and then put in the
//     foreground and continued;
//   - if the command is stopped otherwise (Ctrl-Z, or in the background), redlock stops too,
//     so that the shell sees its job stopped. The lease may run out then, and fg finds that
//     first: the command is killed without having run again.
//
// A nil terminal is none; its methods do nothing.
type terminal struct {
	file *os.File
	own  int // our process group
}

// openTerminal returns the terminal, or nil if there is none.
func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return &terminal{f, syscall.Getpgrp()}
}

// prepare has the command begin in the foreground if that is its place.
func (t *terminal) prepare(attr *syscall.SysProcAttr) {
	if t == nil || t.foreground() != t.own || !isTTY(os.Stdin) || !isTTY(os.Stdout) {
		return
	}
	attr.Foreground, attr.Ctty = true, int(t.file.Fd())
}

// wanted reports whether redlock is in the foreground, and so a command that was stopped
// needs nothing but the terminal.
func (t *terminal) wanted() bool { return t.foreground() == t.own }

// give puts the group in the foreground if that is ours to give.
func (t *terminal) give(group int) {
	if t != nil && t.foreground() == t.own {
		t.setForeground(group)
	}
}

// reclaim puts redlock in the foreground if the group is there.
func (t *terminal) reclaim(group int) {
	if t != nil && t.foreground() == group {
		t.setForeground(t.own)
	}
}

// close takes the terminal back from the group, 0 for one that did not come to be.
func (t *terminal) close(group int) {
	if t == nil {
		return
	}
	if group == 0 && t.foreground() > 0 {
		t.setForeground(t.own)
	}
	t.reclaim(group)
	t.file.Close()
}

// foreground returns the foreground group, or -1.
func (t *terminal) foreground() int {
	var group int32
	if ioctl(t.file, syscall.TIOCGPGRP, &group) != 0 {
		return -1
	}
	return int(group)
}

// setForeground changes the foreground group. From the background that stops a process that
// has not blocked or ignored TTOU.
func (t *terminal) setForeground(group int) {
	signal.Ignore(syscall.SIGTTOU) // for good; the command has begun before and does not inherit it
	id := int32(group)
	ioctl(t.file, syscall.TIOCSPGRP, &id)
}

// isTTY reports whether f is our terminal: it alone tells its foreground group.
func isTTY(f *os.File) bool {
	var group int32
	return ioctl(f, syscall.TIOCGPGRP, &group) == 0
}

func ioctl(f *os.File, request uintptr, arg *int32) syscall.Errno {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(arg)))
	return errno
}
