//go:build linux && (amd64 || arm64) && !race

package redisconn

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// The scheduler does not know of the calls, so one that blocks would stop it for ever. Other code can make a socket one that blocks.
func TestASocketThatBlocksDoesNotStopTheScheduler(t *testing.T) {
	ours, theirs := connected(t, "tcp")
	raw, err := ours.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { err = syscall.SetNonblock(int(fd), false) })
	if err != nil {
		t.Fatal(err)
	}
	direct := Direct(ours)
	time.AfterFunc(20*time.Millisecond, func() { theirs.Write([]byte("late")) })
	p := make([]byte, 4)
	if _, err := io.ReadFull(direct, p); string(p) != "late" || err != nil {
		t.Errorf("read %q, %v", p, err)
	}
	direct.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := direct.Write(make([]byte, 1<<25)); !IsTimeout(err) {
		t.Errorf("Write = %v to a peer that reads nothing, want a time-out", err)
	}
}
