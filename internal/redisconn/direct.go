//go:build linux && (amd64 || arm64)

package redisconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Direct returns a connection that does what conn does, and takes less CPU time if the process is mostly idle. If conn is no connection
// of package net by TCP or a Unix socket, Direct returns conn.
//
// Package net tells the scheduler of each read and write, because system calls can block. In an idle process, that wakes a
// thread (sysmon) that looks for calls that take long. A client that waits for locks reads a few bytes at a time, and is idle in between: the
// wake-ups took up to half of its CPU time. The calls of package net on a socket do not block, so Direct need not tell the scheduler.
func Direct(conn net.Conn) net.Conn {
	var raw syscall.RawConn
	var err error
	switch c := conn.(type) { // another type may embed one of these, and have a Read of its own
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	default:
		return conn
	}
	if err != nil {
		return conn
	}
	c := &directConn{Conn: conn, raw: raw}
	c.in.try, c.out.try = c.receive, c.send
	return c
}

type directConn struct {
	net.Conn
	raw     syscall.RawConn
	in, out transfer
}

// A transfer is one Read or Write at a time.
type transfer struct {
	mu   sync.Mutex
	try  func(fd uintptr) bool // reads or writes; false: it would block; made once, since making it allocates
	rest []byte                // still to be filled or written
	n    int                   // bytes read or written so far
	err  error
}

// Read implements net.Conn.
func (c *directConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return c.Conn.Read(p)
	}
	n, err := c.in.run(c.raw.Read, p)
	if err == io.EOF {
		return n, err
	}
	return n, c.named("read", err)
}

// Write implements net.Conn.
func (c *directConn) Write(p []byte) (int, error) {
	n, err := c.out.run(c.raw.Write, p)
	return n, c.named("write", err)
}

// run reads into p, or writes it. do is a method of the RawConn: it calls try, again whenever the socket is ready.
func (t *transfer) run(do func(func(fd uintptr) bool) error, p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rest, t.n, t.err = p, 0, nil
	err := do(t.try)
	t.rest = nil
	if t.err != nil {
		err = t.err
	}
	return t.n, err
}

// receive is a try of Read.
func (c *directConn) receive(fd uintptr) bool {
	n, errno := receive(fd, c.in.rest)
	switch {
	case errno == syscall.EAGAIN:
		return false
	case errno != 0:
		c.in.err = os.NewSyscallError("read", errno)
	case n == 0:
		c.in.err = io.EOF
	}
	c.in.n = n
	return true
}

// send is a try of Write.
func (c *directConn) send(fd uintptr) bool {
	t := &c.out
	for len(t.rest) > 0 {
		n, errno := send(fd, t.rest)
		switch errno {
		case 0:
			t.n, t.rest = t.n+n, t.rest[n:]
		case syscall.EAGAIN:
			return false
		default:
			t.err = os.NewSyscallError("write", errno)
			return true
		}
	}
	return true
}

// named returns err as package net returns the errors of an operation.
func (c *directConn) named(op string, err error) error {
	if err == nil {
		return nil
	}
	if e := (*net.OpError)(nil); errors.As(err, &e) { // of the RawConn, for which the operation is raw-read or raw-write
		err = e.Err
	}
	local := c.LocalAddr()
	network := ""
	if local != nil {
		network = local.Network()
	}
	return &net.OpError{Op: op, Net: network, Source: local, Addr: c.RemoteAddr(), Err: err}
}
