// Package reasons turns the errors of several masters into text, for errors and for the Logger. Masters that failed
// for the same reason are named together.
package reasons

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/remedy"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Failure is why one master did not execute a command, or several that are named together.
type Failure struct {
	Master string // its name; empty for an error that concerns no single master
	Err    error  // why it did not
}

// Text returns the masters' errors as text, one part for each reason, in the order in which each reason first occurs.
func Text(failures []Failure) string {
	var all []Failure
next:
	for _, f := range failures {
		for i, g := range all {
			if shown, is := inCommon(g.Err, f.Err); is && f.Master != "" && g.Master != "" {
				all[i] = Failure{g.Master + ", " + f.Master, shown}
				continue next
			}
		}
		all = append(all, f)
	}
	var parts []string
	for _, f := range all {
		part := Plain(f.Err)
		if f.Master != "" {
			part = f.Master + ": " + part
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// inCommon reports whether a and b are the same reason, and returns the error to show. Of two quarantines
// this is the one that ends later. Of two late answers it is that of the slower master.
func inCommon(a, b error) (error, bool) {
	if p, q := as[*guard.QuarantineError](a), as[*guard.QuarantineError](b); p != nil && q != nil {
		if p.Until.Before(q.Until) {
			a = b
		}
		return a, p.Why == q.Why
	}
	if p, q := as[*quorum.LateError](a), as[*quorum.LateError](b); p != nil && q != nil {
		if p.RTT < q.RTT {
			a = b
		}
		return a, p.Timeout == q.Timeout
	}
	return a, Plain(a) == Plain(b)
}

// as returns the error of type E in err, or nil.
func as[E error](err error) (found E) {
	errors.As(err, &found)
	return found
}

// Kind returns text that is equal for errors of different attempts, and of different locks, with one cause. It leaves
// out the names of the masters that failed, and all digits, because both change from attempt to attempt.
func Kind(errs ...error) string {
	var kinds []string
	for _, err := range errs {
		switch {
		case as[*guard.QuarantineError](err) != nil:
			kinds = append(kinds, "in quarantine")
		case as[*quorum.LateError](err) != nil, isUnreachable(err):
			kinds = append(kinds, "down")
		default:
			kinds = append(kinds, strings.Join(strings.FieldsFunc(Plain(err), unicode.IsDigit), ""))
		}
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), "; ")
}

// isUnreachable reports whether err is a failure of the network, or of a server that does not answer. One
// outage causes many such errors, one after the other.
func isUnreachable(err error) bool {
	return as[net.Error](err) != nil || errors.Is(err, io.EOF) || as[*remedy.LateError](err) != nil ||
		strings.HasPrefix(err.Error(), "connection ") // texts of package master
}

// Plain returns err's text on one line, without the addresses of a network error: the master's name is shown
// anyway, and the local address differs from master to master.
func Plain(err error) string {
	if redisconn.IsReply(err) {
		err = remedy.With(err)
	}
	text := OneLine(err)
	if strings.Contains(text, scriptDenied) {
		text += " (redlock doctor names it)"
	}
	op := as[*net.OpError](err)
	if op == nil || op.Addr == nil && op.Source == nil || op.Err == nil {
		return text
	}
	cause := op.Err
	if call := as[*os.SyscallError](cause); call != nil {
		cause = call.Err
	}
	return strings.Replace(text, OneLine(op), OneLine(cause), 1)
}

// scriptDenied is in the error of a server whose user may not use a command of a script. It does not say which one.
const scriptDenied = "The user executing the script can't run this command"

// OneLine returns err's text as one line, without control characters.
func OneLine(err error) string { return redisconn.Printable(err.Error()) }

// NamesMost is the highest number of names that Names lists.
const NamesMost = 10

// Names returns the first of count names as text. names may leave out all but the first NamesMost.
func Names(names []string, count int) string {
	shown := names[:min(len(names), NamesMost)]
	text := strings.Join(shown, ", ")
	if more := count - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Reasons for a vote that was not granted.
var (
	ErrRefused  = errors.New("held by another")
	ErrNoAnswer = errors.New("no answer yet")
	ErrUnasked  = errors.New("not asked, since another goroutine is asking")

	errMissing   = errors.New("the key is gone")
	errNotOurs   = errors.New("the key is somebody else's")
	errUnawaited = errors.New("not waited for")
	errOvertaken = errors.New("it has given a higher fence")
)

// outcomes are the reasons that an outcome says.
var outcomes = map[wire.Outcome]error{wire.Taken: ErrRefused, wire.Missing: errMissing, wire.OtherToken: errNotOurs, wire.Overtaken: errOvertaken}

// OfVote returns the reason why a vote was not granted in a round. settled says whether the votes that are in
// have settled the round.
func OfVote(v quorum.Vote, settled bool) error {
	switch {
	case v.In:
		return cmp.Or(outcomes[v.Outcome], v.Err)
	case settled:
		return errUnawaited
	}
	return ErrNoAnswer
}

// Unanswered reports whether err is the reason of a vote that has not come. The master may still grant it.
func Unanswered(err error) bool { return errors.Is(err, ErrNoAnswer) || errors.Is(err, errUnawaited) }

// IsDenied reports whether err says that the master's user lacks a right.
func IsDenied(err error) bool {
	return redisconn.IsReply(err) && (strings.Contains(err.Error(), "NOPERM") || strings.Contains(err.Error(), scriptDenied))
}

// Faults returns the errors of the failures that are a fault of the master.
func Faults(failures []Failure) (errs []error) {
	for _, f := range failures {
		if f.Err != ErrRefused && f.Err != ErrUnasked && f.Err != ErrNoAnswer && f.Err != errUnawaited {
			errs = append(errs, f.Err)
		}
	}
	return errs
}

// Readers returns how many readers there are, and their owners as far as they are known. An owner that is not known is empty.
func Readers(owners []string) string {
	text := strconv.Itoa(len(owners)) + " readers"
	switch len(owners) {
	case 0:
		return ""
	case 1:
		text = "1 reader"
	}
	known := slices.DeleteFunc(slices.Clone(owners), func(owner string) bool { return owner == "" })
	if len(known) == 0 {
		return text
	}
	return text + " (" + Names(known, len(owners)) + ")"
}
