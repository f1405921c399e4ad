// Package redisconn reads replies from a Redis connection whose server may be slow, broken or hostile.
//
//   - Bounded limits how much memory a reply can take.
//   - Direct reads and writes with less CPU time.
//   - ReceiveWithin limits how long a reply can take, and survives what makes redigo panic.
//   - Break, Interrupt and Discard end a connection on which replies are pending.
//   - Printable, ServerText and PrintableError make a server's text safe to show.
//
// After a Send that has failed, redigo's Flush fails, too.
package redisconn

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

// Check returns an error, and closes the connection, if the connection does not support time-outs.
func Check(conn redis.Conn) error {
	// Do with an empty command sends nothing, but fails on such a connection.
	_, err := redis.DoWithTimeout(conn, time.Second, "")
	if err != nil {
		conn.Close() // Break would never end
	}
	return err
}

// Break makes a connection unusable, which also ends a Flush that is stuck in a full socket. Only the
// goroutine that receives may call it.
func Break(conn redis.Conn) {
	// A read that times out breaks a redigo connection. Before that, redigo returns the replies that
	// are in its buffer, which are finite.
	for conn.Err() == nil {
		ReceiveWithin(conn, -time.Second)
	}
}

// CanInterrupt reports whether Interrupt has an effect on a connection: it must support contexts. No reply may be pending.
func CanInterrupt(conn redis.Conn) bool {
	_, err := redis.DoContext(conn, context.Background(), "") // sends nothing
	return err == nil
}

// Interrupt makes a connection unusable, and ends a Receive that is blocked. Any goroutine may call it.
func Interrupt(conn redis.Conn) {
	// If the deadline of ReceiveContext has passed, redigo breaks the connection instead of reading. It closes the net.Conn, to unblock others.
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	redis.ReceiveContext(conn, ctx)
}

// Discard closes a connection on which replies may be pending. Redigo's Close alone would wait for
// them.
func Discard(conn redis.Conn) {
	Break(conn)
	conn.Close()
}

// Receive reads a reply before the deadline of ctx, which must have one.
func Receive(ctx context.Context, conn redis.Conn) (any, error) {
	deadline, _ := ctx.Deadline()
	return ReceiveWithin(conn, max(time.Until(deadline), time.Nanosecond))
}

// Do sends a command and reads its reply before the deadline of ctx, which must have one. No other
// reply may be pending.
func Do(ctx context.Context, conn redis.Conn, name string, args ...any) (any, error) {
	conn.Send(name, args...)
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	return Receive(ctx, conn)
}

// ErrTooLarge is the error for a reply that exceeds the bounds: see Bounded.
var ErrTooLarge = errors.New("a reply too large to read")

// ReceiveWithin reads a reply. An error reply is returned as a printable redis.Error; any other error
// is the end of the connection.
func ReceiveWithin(conn redis.Conn, timeout time.Duration) (reply any, err error) {
	// Redigo panics, in make, at an array of 10¹⁸ elements.
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(runtime.Error); !ok || !strings.Contains(e.Error(), "makeslice") {
				panic(p)
			}
			reply, err = nil, ErrTooLarge
		}
	}()
	reply, err = redis.ReceiveWithTimeout(conn, timeout)
	if IsReply(err) {
		err = PrintableError(err)
	}
	return reply, err
}

// IsReply reports whether err is an error reply: the server refused a command, and the connection is
// usable.
func IsReply(err error) bool {
	if err == nil { // nearly always; errors.As would allocate
		return false
	}
	var reply redis.Error
	return errors.As(err, &reply)
}

// IsTimeout reports whether err is a time-out of a context, a connection or a system call.
func IsTimeout(err error) bool {
	var netErr net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &netErr) && netErr.Timeout()
}

// Ended returns the error to report for a connection that ended with err.
func Ended(err error) error {
	switch {
	case err == ErrTooLarge:
		return err
	case IsTimeout(err):
		return errors.New("connection retired: a reply is overdue")
	}
	return fmt.Errorf("connection lost: %w", err)
}
