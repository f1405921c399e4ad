package redlock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// A Locker of several names has a set. The Locker's key stands for the set, and is no key on the masters. It is
// the name of the set's own gate, at which the goroutines that wait for the same set queue. Behind that gate, a
// goroutine takes the gates of the single names, in the order of the keys. Since all sets have the same order, no
// two of them wait for each other.
type set struct {
	names []string // immutable; in the order of the keys
	keys  []string // immutable; sorted, all different
}

// newSet returns a Locker of several names, which are sorted and all different. So their keys are, too.
func (c *Client) newSet(names []string, opts LockOptions) (*Locker, error) {
	if len(names) > master.NamesMost {
		return nil, fmt.Errorf("redlock: a Locker has %d names, the limit is %d", len(names), master.NamesMost)
	}
	keys := make([]string, len(names))
	for i, name := range names {
		var err error
		if keys[i], err = c.opts.key(name); err != nil {
			return nil, err
		}
	}
	terms := master.NewSetTerms(keys, opts.TTL)
	return &Locker{client: c, name: strings.Join(names, ", "), key: terms.Key(), opts: opts, terms: terms, set: &set{names, keys}}, nil
}

// errHeldInSet is the note of the gate of a name while a goroutine of the Client holds a set with that name.
var errHeldInSet = fmt.Errorf("%w with other names by a goroutine of this Client", ErrHeld)

// nameGates returns how many gates of single names a lease of l has taken, beside the gate of l.
func (l *Locker) nameGates() int {
	if l.set == nil {
		return 0
	}
	return len(l.set.keys)
}

// leaveGate leaves the gate of l and, for a set, those of its names.
func (l *Locker) leaveGate() {
	l.leaveNames(l.nameGates())
	l.client.gates.Leave(l.key)
}

// leaveNames leaves the gates of the first n names.
func (l *Locker) leaveNames(n int) {
	for i := range n {
		l.client.gates.Leave(l.set.keys[i])
	}
}

// noteHeld tells goroutines that find a gate of l taken that a lease holds the lock, or no longer does.
func (l *Locker) noteHeld(is bool) {
	note, inSet := error(nil), error(nil)
	if is {
		note, inSet = ErrHeld, errHeldInSet
	}
	l.client.gates.Note(l.key, note)
	if l.set != nil {
		for _, key := range l.set.keys {
			l.client.gates.Note(key, inSet)
		}
	}
}

// firstKind returns the kind of command for an attempt that is not followed by a claim. It counts the
// acquisition: see lastReleases.begin.
func (l *Locker) firstKind() (kind master.Kind) {
	for key := range l.terms.Keys {
		k, _ := l.client.lastReleases.begin(key)
		kind = max(kind, k)
	}
	return kind
}

// nameHeld has the error of an attempt say which name is held.
func (l *Locker) nameHeld(err error, votes []quorum.Vote) error {
	q, ok := err.(*QuorumError)
	if !ok {
		return err
	}
	masters := make(map[string]int) // at how many a name is held
	for i, v := range votes {
		if v.Outcome != master.Taken || v.Which == 0 {
			continue
		}
		name := l.set.names[v.Which-1]
		masters[name]++
		for _, err := range q.Errs {
			if node, ok := err.(*NodeError); ok && node.Master == l.client.opts.Names[i] && node.Err == errRefused {
				node.Err = &heldError{name}
			}
		}
	}
	if q.held {
		q.Held = l.set.names[0]
		for _, name := range l.set.names {
			if masters[name] > masters[q.Held] {
				q.Held = name
			}
		}
	}
	return q
}

// A heldError says which of several names a master has found held. Like errRefused, it does not match ErrHeld.
type heldError struct{ name string }

func (e *heldError) Error() string { return quote(e.name) + " is held by another" }

// heldKey returns the key that err says is held.
func (l *Locker) heldKey(err error) string {
	if l.set == nil {
		return l.key
	}
	if q := (*QuorumError)(nil); errors.As(err, &q) && q.Held != "" {
		return l.client.opts.Prefix + q.Held
	}
	return l.key
}
