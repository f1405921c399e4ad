package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors to be compared with errors.Is.
var (
	// ErrHeld says that somebody else holds the lock: refusals alone rule a
	// quorum out, or a goroutine of this Client holds it.
	ErrHeld = errors.New("redlock: lock is held")
	// ErrLost says that a lease ended before it was unlocked.
	ErrLost = errors.New("redlock: lease lost")
	// ErrReleased says that a lease ended because it was unlocked.
	ErrReleased = errors.New("redlock: lease released")
	// ErrNotHeld says that the Locker was not locked.
	ErrNotHeld = errors.New("redlock: not locked")
	// ErrClosed says that the Client is closed.
	ErrClosed = errors.New("redlock: client is closed")
)

// Reasons for a vote that was not granted. They do not match ErrHeld: one
// refusal is not a held lock.
var (
	errRefused   = errors.New("held by another")
	errMissing   = errors.New("the key is gone")
	errNotOurs   = errors.New("the key is somebody else's")
	errNoAnswer  = errors.New("no answer yet")
	errOvertaken = errors.New("it has given a higher fence")
	errUnasked   = errors.New("not asked, since another goroutine is asking")
)

// A NodeError is what went wrong with one master.
type NodeError struct {
	Master string // its name: see Options.Names
	Op     string // what it was asked: "acquire", "fence", "renew", "release" or "ping"
	Err    error  // the cause
}

func (e *NodeError) Error() string {
	return fmt.Sprintf("redlock: %s: %s: %s", e.Master, e.Op, oneLine(e.Err))
}

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// A QuorumError says that too few masters granted what they were asked. It
// matches ErrHeld only if refusals alone rule a quorum out, so that a lock
// which is held and masters which are down cannot be mistaken for each other.
type QuorumError struct {
	Op      string  // "acquire", "fence" (the second round of an acquisition), "renew", "release" or "ping"
	Name    string  // of the lock; empty for a ping
	Granted int     // how many masters did
	Need    int     // how many would have had to
	Errs    []error // one *NodeError for each master that did not

	held bool
	// When a quorum of masters will have let the key expire, if they have said
	// so and nobody renews it: for how long it is worth to sleep at most.
	free  time.Duration
	frees bool
}

func (e *QuorumError) Error() string {
	var b strings.Builder
	b.WriteString("redlock: " + e.Op)
	if e.Name != "" {
		b.WriteString(" " + quote(e.Name))
	}
	fmt.Fprintf(&b, ": granted by %d, %d needed", e.Granted, e.Need)
	separator := " ("
	for _, err := range e.Errs {
		b.WriteString(separator)
		separator = "; "
		var node *NodeError
		if errors.As(err, &node) {
			b.WriteString(node.Master + ": " + oneLine(node.Err))
		} else {
			b.WriteString(oneLine(err))
		}
	}
	if len(e.Errs) > 0 {
		b.WriteByte(')')
	}
	return b.String()
}

// Is reports whether target is ErrHeld and refusals alone ruled a quorum out.
func (e *QuorumError) Is(target error) bool { return target == ErrHeld && e.held }

// Unwrap returns the masters' errors.
func (e *QuorumError) Unwrap() []error { return e.Errs }

// An endedError says that a context ended a wait. It matches the context's
// error and cause, and wraps what the last attempt had to say.
type endedError struct {
	op, name string
	ctx      context.Context
	last     error // may be nil
}

func (e *endedError) Error() string {
	s := "redlock: " + e.op
	if e.name != "" {
		s += " " + quote(e.name)
	}
	s += ": " + oneLine(context.Cause(e.ctx))
	if e.last != nil {
		s += " (" + unprefixed(e.last) + ")"
	}
	return s
}

func (e *endedError) Unwrap() []error {
	errs := []error{e.ctx.Err(), context.Cause(e.ctx)}
	if e.last != nil {
		errs = append(errs, e.last)
	}
	return errs
}

// unprefixed returns err's text for use inside another of ours.
func unprefixed(err error) string { return strings.TrimPrefix(oneLine(err), "redlock: ") }

// oneLine returns err's text without line breaks: an error is one line of a log.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}
