//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// A terminal is the controlling terminal of this process. Only the terminal's foreground process
// group can read from it and gets the signal of Ctrl-C. The command has a process group of its own,
// so redlock must manage which group is in the foreground:
//
//   - If redlock is in the foreground, and its input and output are the terminal, it puts the
//     command in the foreground at once, as a shell does.
//   - In a pipeline, such as `redlock run x -- make | less`, it does not: less needs the terminal.
//     If the command reads from the terminal, the kernel stops the command. Then redlock puts the
//     command in the foreground and continues it.
//   - If the command is stopped otherwise (by Ctrl-Z, or in the background), redlock stops too, so
//     that the shell sees its job stopped. The lease may end during the stop. After fg redlock
//     checks the lease first, and kills the command without letting it run again.
//
// A nil *terminal stands for no terminal. Its methods do nothing.
type terminal struct {
	file *os.File
	own  int // redlock's process group
}

// openTerminal returns the terminal, or nil if there is none.
func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return &terminal{f, syscall.Getpgrp()}
}

// prepare makes the command start in the foreground if redlock is there with a terminal for input
// and output.
func (t *terminal) prepare(attr *syscall.SysProcAttr) {
	if t == nil || t.foreground() != t.own || !isTTY(os.Stdin) || !isTTY(os.Stdout) {
		return
	}
	attr.Foreground, attr.Ctty = true, int(t.file.Fd())
}

// wanted reports whether redlock is in the foreground. Then a command that was stopped only needs
// the terminal.
func (t *terminal) wanted() bool { return t.foreground() == t.own }

// give puts the group in the foreground if redlock is there.
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

// close puts redlock in the foreground if the group is there. A group of 0 stands for a command
// that did not start.
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

// setForeground changes the foreground group. A process in the background that does this is
// stopped, unless it ignores TTOU.
func (t *terminal) setForeground(group int) {
	signal.Ignore(syscall.SIGTTOU) // until the end; the command started before and does not inherit it
	id := int32(group)
	ioctl(t.file, syscall.TIOCSPGRP, &id)
}

// isTTY reports whether f is the controlling terminal: only for that the ioctl succeeds.
func isTTY(f *os.File) bool {
	var group int32
	return ioctl(f, syscall.TIOCGPGRP, &group) == 0
}

// terminalSize returns how many lines and columns a terminal shows, or 0 if that is not known.
func terminalSize(f *os.File) (rows, columns int) {
	var size struct{ rows, columns, x, y uint16 }
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))); errno != 0 {
		return 0, 0
	}
	return int(size.rows), int(size.columns)
}

func ioctl(f *os.File, request uintptr, arg *int32) syscall.Errno {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(arg)))
	return errno
}
