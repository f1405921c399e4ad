//go:build linux && (amd64 || arm64) && race

package redisconn

import "syscall"

// receive reads from a socket that does not block. The calls of package syscall tell the race detector that what happened before a write
// happened before the read of it, also in tests whose servers are in the same process.
func receive(fd uintptr, p []byte) (int, syscall.Errno) {
	return untilDone(syscall.Read, fd, p)
}

// send writes to a socket that does not block.
func send(fd uintptr, p []byte) (int, syscall.Errno) {
	return untilDone(syscall.Write, fd, p)
}

func untilDone(call func(int, []byte) (int, error), fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, err := call(int(fd), p)
		switch errno, _ := err.(syscall.Errno); errno {
		case 0:
			return n, 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
