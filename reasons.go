package redlock

import (
	"errors"
	"net"
	"os"
	"strings"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// A reason is why one or more masters did not execute a command.
type reason struct {
	masters []string // the names, in order; empty for an error that names no master
	err     error    // the error of one of the masters
}

// grouped returns the text of the masters' errors, one part for each reason.
func grouped(errs []error) string {
	var parts []string
	for _, r := range reasons(errs) {
		part := plain(r.err)
		if len(r.masters) > 0 {
			part = strings.Join(r.masters, ", ") + ": " + part
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// reasons groups the masters' errors, in the order in which each reason first occurs.
func reasons(errs []error) []reason {
	var all []reason
next:
	for _, err := range errs {
		var names []string
		if node := (*NodeError)(nil); errors.As(err, &node) {
			names, err = []string{node.Master}, node.Err
		}
		for i := range all {
			r := &all[i]
			if common, ok := inCommon(r.err, err); ok && len(r.masters) > 0 && len(names) > 0 {
				r.masters, r.err = append(r.masters, names...), common
				continue next
			}
		}
		all = append(all, reason{names, err})
	}
	return all
}

// inCommon reports whether a and b are the same reason, and returns the error to show. Of two quarantines
// this is the one that ends later. Of two late answers it is that of the slower master.
func inCommon(a, b error) (error, bool) {
	if a == nil || b == nil { // messages without a reason
		return a, a == b
	}
	if p, q := quarantineOf(a), quarantineOf(b); p != nil && q != nil {
		if p.Until.Before(q.Until) {
			a = b
		}
		return a, p.Why == q.Why
	}
	if p, q := lateOf(a), lateOf(b); p != nil && q != nil {
		if p.RTT < q.RTT {
			a = b
		}
		return a, p.Timeout == q.Timeout
	}
	return a, plain(a) == plain(b)
}

// quarantineOf returns the quarantine in err, or nil.
func quarantineOf(err error) *master.QuarantineError {
	var q *master.QuarantineError
	errors.As(err, &q)
	return q
}

// lateOf returns the late answer in err, or nil.
func lateOf(err error) *quorum.LateError {
	var l *quorum.LateError
	errors.As(err, &l)
	return l
}

// plain returns err's text on one line, without the addresses of a network error: the master's name is shown
// anyway, and the local address differs from master to master.
func plain(err error) string {
	text := oneLine(err)
	op := (*net.OpError)(nil)
	if !errors.As(err, &op) || op.Addr == nil && op.Source == nil || op.Err == nil {
		return text
	}
	cause := op.Err
	if call := (*os.SyscallError)(nil); errors.As(cause, &call) {
		cause = call.Err
	}
	return strings.Replace(text, oneLine(op), oneLine(cause), 1)
}
