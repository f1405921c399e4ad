package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/engine"
	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/reasons"
	"github.com/redlock-go/redlock/internal/wire"
)

// Errors to be compared with errors.Is.
var (
	// ErrHeld says that somebody else holds the lock: refusals alone rule a
	// quorum out, or a goroutine of this Client holds it.
	ErrHeld = errors.New("redlock: lock is held")
	// ErrNotALock says that a key of this name holds data that is not a lock, or has no expiry, on so many masters that nobody can
	// acquire the lock. Waiting does not help: delete the data, or choose another name or Options.Prefix. An error that
	// matches ErrNotALock does not match ErrHeld.
	ErrNotALock = errors.New("redlock: the key is not a lock")
	// ErrDenied says that so many masters deny this Client's user a right (NOPERM) that a quorum is ruled out. Waiting does not
	// help: redlock doctor --acl prints the rights that a user needs, which may be for another Options.Prefix.
	ErrDenied = errors.New("redlock: a right is missing")
	// ErrLost says that a lease ended before it was unlocked.
	ErrLost = errors.New("redlock: lease lost")
	// ErrReleased says that a lease ended because it was unlocked.
	ErrReleased = engine.ErrReleased
	// ErrNotHeld says that the Locker was not locked.
	ErrNotHeld = engine.ErrNotHeld
	// ErrQuarantined says that masters are in quarantine: they answer, but they may have lost locks
	// that somebody holds, so their votes do not count yet. The error of a quarantined master
	// (MasterStatus.Err) matches it. The error of a round (of Ping, TryLockContext, LockContext)
	// matches it if waiting until the quarantines end is enough; then MasterStatus.Until says when
	// that is. By it, a readiness check can distinguish masters in quarantine from masters that are down.
	ErrQuarantined = guard.ErrQuarantined
	// ErrClosed says that the Client is closed.
	ErrClosed = engine.ErrClosed
	// ErrTooLarge says that a value is too long to be shared: see Client.SingleFlight.
	ErrTooLarge = errors.New("redlock: value is too large to be shared")
)

// A NodeError is what went wrong with one master.
type NodeError struct {
	Master string // its name: see Options.Names
	Op     string // what it was asked: "acquire", "fence", "renew", "release", "ping" or "inspect"
	Err    error  // the cause
}

func (e *NodeError) Error() string {
	return fmt.Sprintf("redlock: %s: %s: %s", e.Master, e.Op, reasons.OneLine(e.Err))
}

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// A QuorumError says that too few masters granted what they were asked. It
// matches ErrHeld only if refusals alone rule a quorum out, so that a lock
// which is held and masters which are down cannot be mistaken for each other.
// Several goroutines may receive the same one, so it must not be changed.
type QuorumError struct {
	Op      string  // "acquire", "fence" (the second round of an acquisition), "renew", "release", "ping" or "inspect"
	Name    string  // of the lock, as Locker.Name returns it; empty for a ping
	Granted int     // how many masters granted it
	Need    int     // how many are a quorum
	Errs    []error // a *NodeError for each master that did not grant it; another error if a quorum granted it in vain

	// Owner is who held the lock lately, if the error matches ErrHeld and that is known: see Options.Owner. What is known may
	// be 2 s old, and up to 15 s while other clients are ahead in the queue. The masters are asked at most once a second, by waits that
	// have lasted for 100 ms and by TryLockContext.
	Owner string

	// Readers are the owners of the Clients whose readers held the lock, as old as an Owner: see Holding.Readers. With
	// Readers, Owner is empty.
	Readers []string

	// Held is the name that is held, or whose key is not a lock, if the error matches ErrHeld or ErrNotALock: Name, or one of its
	// names.
	Held string

	held     bool
	notALock bool // matches ErrNotALock
}

// Error returns one line. Masters that failed for the same reason are listed together.
func (e *QuorumError) Error() string {
	if e.Name == "" {
		return "redlock: " + e.unnamed()
	}
	s := "redlock: " + e.Op + " " + strconv.Quote(e.Name) + strings.TrimPrefix(e.unnamed(), e.Op)
	if e.Owner != "" {
		s += "; the holder is " + e.Owner
	} else if text := reasons.Readers(e.Readers); text != "" {
		s += "; held by " + text
	}
	return s
}

// unnamed returns the text without the lock's name, and without its holder.
func (e *QuorumError) unnamed() string {
	s := fmt.Sprintf("%s: granted by %d, %d needed", e.Op, e.Granted, e.Need)
	if len(e.Errs) > 0 {
		s += " (" + reasons.Text(e.failures()) + ")"
	}
	return s
}

// failures returns Errs, with the masters' names apart from what went wrong.
func (e *QuorumError) failures() []reasons.Failure {
	all := make([]reasons.Failure, len(e.Errs))
	for i, err := range e.Errs {
		all[i].Err = err
		if node := (*NodeError)(nil); errors.As(err, &node) {
			all[i] = reasons.Failure{Master: node.Master, Err: node.Err}
		}
	}
	return all
}

// Is reports whether target is ErrHeld and refusals alone ruled a quorum out, or target is ErrNotALock or ErrDenied and keys that are not
// locks, or missing rights, did.
func (e *QuorumError) Is(target error) bool {
	switch target {
	case ErrHeld:
		return e.held
	case ErrNotALock:
		return e.notALock
	case ErrDenied:
		return e.rulesOut(reasons.IsDenied)
	}
	return false
}

// rulesOut reports whether the masters that have failed with an error of which is is true rule a quorum out.
func (e *QuorumError) rulesOut(is func(error) bool) bool {
	failed, others := 0, e.Granted
	for _, f := range e.failures() {
		switch {
		case f.Master == "":
		case is(f.Err):
			failed++
		default:
			others++
		}
	}
	return failed > 0 && others < e.Need
}

// Unwrap returns the masters' errors. It leaves out the masters in quarantine if too many others
// failed: then waiting for the quarantines is not enough, and the error does not match
// ErrQuarantined.
func (e *QuorumError) Unwrap() []error {
	quarantined := func(err error) bool { return errors.Is(err, ErrQuarantined) }
	possible := e.Granted
	for _, err := range e.Errs {
		if quarantined(err) || reasons.Unanswered(err) {
			possible++
		}
	}
	if possible >= e.Need {
		return e.Errs
	}
	return slices.DeleteFunc(slices.Clone(e.Errs), quarantined)
}

// errorOf returns the error for users that says what f says.
func (c *Client) errorOf(f *engine.Failure) error {
	switch {
	case f.Ended != nil:
		e := &endedError{op: f.Op, name: f.Name, ctx: f.Ended}
		if f.Last != nil {
			e.last = c.core.ErrorOf(f.Last)
		}
		return e
	case f.Lost != nil:
		e := &lostError{name: f.Name, reason: f.Lost}
		if f.Last != nil {
			e.votes, _ = c.core.ErrorOf(f.Last).(*QuorumError)
		}
		return e
	case f.Own == engine.HeldAlone:
		return ErrHeld
	case f.Own != "":
		return fmt.Errorf("%w %s", ErrHeld, f.Own)
	}
	return c.quorumError(f)
}

// quorumError returns the error for a round that was not won, or for a call that has not asked the masters.
func (c *Client) quorumError(f *engine.Failure) *QuorumError {
	e := &QuorumError{Op: f.Op, Name: f.Name, Need: quorum.Majority(len(c.opts.Names)), Held: f.Held, held: f.Held != "", Owner: f.Owner, Readers: f.Readers}
	if f.Votes == nil {
		for _, name := range c.opts.Names {
			e.Errs = append(e.Errs, &NodeError{Master: name, Op: f.Op, Err: reasons.ErrUnasked})
		}
		return e
	}
	t := quorum.Count(f.Votes)
	e.Granted = t.Granted
	for i, v := range f.Votes {
		if !v.Granted() {
			e.Errs = append(e.Errs, &NodeError{Master: c.opts.Names[i], Op: f.Op, Err: nodeErr(f, i, t.Settled())})
		}
	}
	if f.NotALock != nil && e.rulesOut(wire.IsNotALock) {
		e.held, e.notALock = false, true
	}
	if f.Vain != nil {
		e.Errs = append(e.Errs, f.Vain)
	}
	return e
}

// nodeErr returns why master i has not granted what it was asked.
func nodeErr(f *engine.Failure, i int, settled bool) error {
	err := reasons.OfVote(f.Votes[i], settled)
	var notALock error // what is wrong with the key of f.Held
	if f.NotALock != nil {
		notALock = f.NotALock[i]
	}
	if which := f.Votes[i].Which; err == reasons.ErrRefused && f.Names != nil && which > 0 { // of several names, the master says which is held
		name := f.Names[which-1]
		if notALock != nil && name == f.Held {
			return fmt.Errorf("%q: %w", name, notALock)
		}
		return &heldError{name}
	}
	if notALock != nil && (err == reasons.ErrRefused || reasons.Unanswered(err)) {
		return notALock
	}
	return err
}

// A heldError says which of several names a master has found held. Like reasons.ErrRefused, it does not match ErrHeld.
type heldError struct{ name string }

func (e *heldError) Error() string { return strconv.Quote(e.name) + " is held by another" }

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
		s += " " + strconv.Quote(e.name)
	}
	s += ": " + reasons.OneLine(e.cause())
	if e.last != nil {
		s += " (" + unprefixed(e.last) + ")"
	}
	return s
}

// cause returns why the context ended. For a release it returns only the context's error: the cause may be
// the loss of another lease, and then the error of the release must not match ErrLost.
func (e *endedError) cause() error {
	if e.op == engine.OpRelease {
		return e.ctx.Err()
	}
	return context.Cause(e.ctx)
}

func (e *endedError) Unwrap() []error {
	errs := []error{e.ctx.Err(), e.cause()}
	if e.last != nil {
		errs = append(errs, e.last)
	}
	return errs
}

// A lostError says why a lease was lost. It matches ErrLost.
type lostError struct {
	name   string
	reason error
	votes  *QuorumError // of the last renewal, or nil
}

func (e *lostError) Error() string {
	return fmt.Sprintf("redlock: lease of %q lost: %s", e.name, e.why())
}

// why returns the error's text without the lock's name.
func (e *lostError) why() string {
	s := unprefixed(e.reason)
	if e.votes != nil {
		s += " (" + e.votes.unnamed() + ")"
	}
	return s
}

func (e *lostError) Is(target error) bool { return target == ErrLost }

func (e *lostError) Unwrap() []error {
	if e.votes == nil {
		return []error{e.reason}
	}
	return []error{e.reason, e.votes}
}

// unprefixed returns err's text for use inside another of ours.
func unprefixed(err error) string { return strings.TrimPrefix(reasons.OneLine(err), "redlock: ") }
