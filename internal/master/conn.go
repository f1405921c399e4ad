package master

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// canTimeOut returns an error, and closes the connection, if it is none that can
// be read with a time-out.
func canTimeOut(conn redis.Conn) error {
	// An empty Do does nothing, except to say that.
	_, err := redis.DoWithTimeout(conn, time.Second, "")
	if err != nil {
		conn.Close() // sever could not
	}
	return err
}

// discard closes a connection on which replies may be pending. Redigo's Close
// would wait for them, however long; a read that times out breaks it first.
func discard(conn redis.Conn) {
	sever(conn)
	conn.Close()
}

// sever breaks a connection, which also frees a writer that is stuck in its
// socket. What redigo still finds in its buffer before it fails is finite.
func sever(conn redis.Conn) {
	for conn.Err() == nil {
		receiveWithin(conn, -time.Second)
	}
}

// receive reads a reply before ctx's deadline.
func receive(ctx context.Context, conn redis.Conn) (any, error) {
	deadline, _ := ctx.Deadline()
	return receiveWithin(conn, max(time.Until(deadline), time.Nanosecond))
}

var errTooLarge = errors.New("a reply too large to read")

// receiveWithin reads a reply. Redigo panics, in make, at an array of 10¹⁸
// elements; that is the server's fault, not the program's.
func receiveWithin(conn redis.Conn, timeout time.Duration) (reply any, err error) {
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(runtime.Error); !ok || !strings.Contains(e.Error(), "makeslice") {
				panic(p)
			}
			reply, err = nil, errTooLarge
		}
	}()
	return redis.ReceiveWithTimeout(conn, timeout)
}

// noReply words the end of a connection.
func noReply(err error) error {
	if isTimeout(err) {
		return errors.New("connection retired: a reply is overdue")
	}
	return fmt.Errorf("connection lost: %w", err)
}

// isTimeout reports whether err is a time-out in any of its guises.
func isTimeout(err error) bool {
	var netErr net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &netErr) && netErr.Timeout()
}
