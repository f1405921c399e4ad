package redisserver

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A delayedConn delays what is written to a connection and keeps the order. Writes do not wait for the delay.
type delayedConn struct {
	net.Conn
	delay *atomic.Int64 // in nanoseconds, read at each write; zero: no delay

	mu     sync.Mutex    // guards the fields below
	pieces []piece       // not yet written to the connection
	idle   chan struct{} // closed when pieces becomes empty; nil: pieces is empty
}

// A piece is the data of one Write.
type piece struct {
	data []byte
	due  time.Time
}

func (d *delayedConn) Write(p []byte) (int, error) {
	delay := time.Duration(d.delay.Load())
	d.mu.Lock()
	defer d.mu.Unlock()
	if delay <= 0 && d.idle == nil {
		return d.Conn.Write(p)
	}
	d.pieces = append(d.pieces, piece{bytes.Clone(p), time.Now().Add(delay)})
	if d.idle == nil {
		d.idle = make(chan struct{})
		go d.deliver()
	}
	return len(p), nil
}

// deliver writes the pieces when they are due. It returns after the last piece, or when the connection is
// closed.
func (d *delayedConn) deliver() {
	for {
		d.mu.Lock()
		if len(d.pieces) == 0 {
			close(d.idle)
			d.idle = nil
			d.mu.Unlock()
			return
		}
		next := d.pieces[0]
		d.pieces = d.pieces[1:]
		d.mu.Unlock()
		time.Sleep(time.Until(next.due))
		if _, err := d.Conn.Write(next.data); err != nil {
			d.mu.Lock()
			d.pieces = nil
			d.mu.Unlock()
		}
	}
}

// flush waits until all pieces have been written.
func (d *delayedConn) flush() {
	d.mu.Lock()
	idle := d.idle
	d.mu.Unlock()
	if idle != nil {
		<-idle
	}
}
