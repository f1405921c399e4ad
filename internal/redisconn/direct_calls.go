//go:build linux && (amd64 || arm64) && !race

package redisconn

import (
	"syscall"
	"unsafe"
)

// receive reads from a socket, and does not wait. p must not be empty.
func receive(fd uintptr, p []byte) (int, syscall.Errno) {
	return transferNow(syscall.SYS_RECVFROM, fd, p, syscall.MSG_DONTWAIT)
}

// send writes to a socket, and does not wait. p must not be empty.
func send(fd uintptr, p []byte) (int, syscall.Errno) {
	return transferNow(syscall.SYS_SENDTO, fd, p, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
}

// transferNow makes a system call that must not block, since the scheduler is not told of it: flags say so, even if the socket is one that blocks.
func transferNow(call, fd uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), flags, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
