package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/reasons"
	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/wire"
)

// An observer reads from the masters who holds locks. It writes nothing there, and needs no right to.
type observer struct {
	masters []master
	prefix  string // of the keys of locks that are looked for
	conns   []redis.Conn
}

func newObserver(masters []master) *observer {
	return &observer{masters: masters, conns: make([]redis.Conn, len(masters))}
}

func (o *observer) close() {
	for i := range o.conns {
		o.drop(i)
	}
}

// drop closes the connection to a master, which has failed.
func (o *observer) drop(i int) {
	if o.conns[i] != nil {
		o.conns[i].Close()
		o.conns[i] = nil
	}
}

// An observation is what the masters say of some locks.
type observation struct {
	masters  int           // how many there are
	need     int           // for a quorum
	answered int           // how many have said everything
	failures []error       // by master: why it has not; nil if it has
	remarks  []error       // by master: what it has not said, or that it refuses writes; nil for nothing
	locks    []lockOfNames // sorted by name
	more     int           // how many locks were left out
}

// A lockOfNames is a lock and who holds it.
type lockOfNames struct {
	name string
	holding.Holding
	problem error             // why it cannot be read on some master; nil if it can
	permits holding.Semaphore // the semaphore of the same name
	slots   []int             // of a permit: those of its slots; nil for a lock
}

// isLock reports whether somebody has a key of the lock, or waits for it, or it cannot be read.
func (l lockOfNames) isLock() bool { return l.Token != "" || l.Waiting > 0 || l.problem != nil }

// isSemaphore reports whether somebody stands in a slot of the semaphore of this name, or waits for one.
func (l lockOfNames) isSemaphore() bool { return l.permits.Taken > 0 || l.permits.Waiting > 0 }

// locksMost is how many locks are listed.
const locksMost = 1000

// observe asks the masters about the locks with these names, or about all that they have if names is
// nil.
func (o *observer) observe(ctx context.Context, names []string) observation {
	seen := observation{
		masters: len(o.masters), need: quorum.Majority(len(o.masters)),
		failures: make([]error, len(o.masters)), remarks: make([]error, len(o.masters)),
	}
	o.each(&seen, func(i int) (err error) {
		if o.conns[i] == nil {
			o.conns[i], err = o.masters[i].dial(ctx, doctorPatience)
		}
		return err
	})
	o.tryWrites(&seen)
	searched := names == nil
	if searched {
		names = o.search(&seen)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if seen.more = len(names) - locksMost; seen.more > 0 {
		names = names[:locksMost]
	}
	looks := o.look(&seen, names)
	for n, name := range names {
		lock := lockOfNames{name: name}
		var known []wire.Look
		var permits []wire.SlotLook
		for i := range looks {
			switch {
			case seen.failures[i] != nil:
			case looks[i][n].err != nil:
				lock.problem = looks[i][n].err
			case looks[i][n].look.Token != "" && looks[i][n].look.Left == wire.Forever:
				lock.problem = wire.ErrNoExpiry
			default:
				known = append(known, looks[i][n].look)
			}
			if seen.failures[i] == nil && looks[i][n].slotsErr == nil {
				permits = append(permits, looks[i][n].slots)
			}
		}
		lock.Holding = holding.Of(known, len(o.masters))
		lock.permits = holding.OfSemaphore(permits, len(o.masters))
		seen.locks = append(seen.locks, lock)
	}
	if searched {
		seen.locks = slices.DeleteFunc(seen.locks, func(l lockOfNames) bool {
			return !l.isLock() && !l.isSemaphore() && l.problem != wire.ErrNoExpiry // it has expired
		})
	}
	o.census(&seen)
	for _, err := range seen.failures {
		if err == nil {
			seen.answered++
		}
	}
	return seen
}

// mayWrite is a script that writes nothing, but does not declare that. Redis 7 and later do not run it while they refuse writes; older servers do
// not know the first line, and do not load it. It needs no right to set keys.
const mayWrite = "#!lua\nreturn 1"

// tryWrites finds out which masters refuse writes.
func (o *observer) tryWrites(seen *observation) {
	o.each(seen, func(i int) error {
		all, err := readQueries(o.conns[i], wire.Query{{"SCRIPT", "LOAD", mayWrite}, {"EVALSHA", redis.NewScript(0, mayWrite).Hash(), 0}})
		if err != nil {
			return err
		}
		if refusal, _ := all[0][1].(error); wire.RefusesWrites(refusal) {
			cause, advice := explain(refusal)
			seen.remarks[i] = fmt.Errorf("it grants no locks: %s (%s)", cause, advice)
		}
		return nil
	})
}

// each calls f for each master that has not failed, at the same time.
func (o *observer) each(seen *observation, f func(i int) error) {
	atOnce(o.masters, func(i int, _ master) {
		if seen.failures[i] != nil {
			return
		}
		if err := f(i); err != nil {
			o.drop(i)
			seen.failures[i] = err
		}
	})
}

// search returns the names of all locks.
func (o *observer) search(seen *observation) []string {
	found := make([][]string, len(o.masters))
	o.each(seen, func(i int) error {
		var err error
		found[i], err = findLocks(o.conns[i], o.prefix, scanMost)
		if errors.Is(err, errTooManyKeys) || errors.Is(err, errNoSemaphores) {
			seen.remarks[i], err = cmp.Or(seen.remarks[i], err), nil
		}
		if reasons.IsDenied(err) {
			err = &searchError{err}
		}
		return err
	})
	return append([]string{}, slices.Concat(found...)...) // not nil
}

// A searchError says that the user has no right to search for names.
type searchError struct{ error }

func (e *searchError) Unwrap() error { return e.error }

// A sight is what a master says of one lock, and of the semaphore of the same name.
type sight struct {
	look     wire.Look
	err      error
	slots    wire.SlotLook
	slotsErr error
}

// pipelined is how many locks a master is asked about together.
const pipelined = 100

// look returns what each master says of each lock.
func (o *observer) look(seen *observation, names []string) [][]sight {
	sights := make([][]sight, len(o.masters))
	o.each(seen, func(i int) error {
		for some := range slices.Chunk(names, pipelined) {
			var queries []wire.Query
			for _, name := range some {
				queries = append(queries, wire.NewLook(name), wire.NewSlotLook(name))
			}
			all, err := readQueries(o.conns[i], queries...)
			if err != nil {
				return err
			}
			for n := range some {
				var s sight
				if s.look, s.err = wire.DecodeLook(all[2*n]); s.err != nil && strings.HasPrefix(s.err.Error(), "NOPERM") {
					return s.err
				}
				if s.slots, s.slotsErr = wire.DecodeSlotLook(all[2*n+1]); s.slotsErr != nil {
					seen.remarks[i] = cmp.Or(seen.remarks[i], fmt.Errorf("a semaphore %s cannot be read: %w", shown(some[n]), s.slotsErr))
				}
				sights[i] = append(sights[i], s)
			}
		}
		return nil
	})
	return sights
}

// census drops waiting clients that have ended.
func (o *observer) census(seen *observation) {
	listening := make([][]map[string]bool, len(seen.locks))
	var mu sync.Mutex // guards listening
	o.each(seen, func(i int) error {
		for n, lock := range seen.locks {
			if len(lock.Waiters)+len(lock.permits.Waiters) == 0 {
				continue
			}
			all, err := readQueries(o.conns[i], wire.NewCensus(append(lock.IDs(), lock.permits.IDs()...)))
			if err != nil {
				return err
			}
			if ids, ok := wire.DecodeCensus(all[0]); ok {
				mu.Lock()
				listening[n] = append(listening[n], ids)
				mu.Unlock()
			}
		}
		return nil
	})
	for n := range seen.locks {
		seen.locks[n].Drop(listening[n])
		seen.locks[n].permits.Drop(listening[n])
	}
}

// readQueries sends queries together, and returns the replies to each.
func readQueries(conn redis.Conn, queries ...wire.Query) ([][]any, error) {
	for _, q := range queries {
		for _, one := range q {
			if err := conn.Send(one[0].(string), one[1:]...); err != nil {
				return nil, err
			}
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	all := make([][]any, len(queries))
	for i, q := range queries {
		for range q {
			reply, err := conn.Receive()
			if err = redisconn.PrintableError(err); err != nil && !redisconn.IsReply(err) {
				return nil, err
			} else if err != nil {
				reply = err
			}
			all[i] = append(all[i], reply)
		}
	}
	return all, nil
}

// troubles returns a line on each master that has not said everything.
func (seen observation) troubles(masters []master) (lines []string) {
	for i, m := range masters {
		switch {
		case seen.failures[i] != nil:
			advice, why := failureOf(seen.failures[i])
			if errors.As(seen.failures[i], new(*searchError)) {
				advice = "redlock doctor --acl --status prints the rights that it needs; with the NAME of a lock, it needs no SCAN"
			}
			line := fmt.Sprintf("%s: %v", m.Address(), why)
			if advice != "" {
				line += " (" + advice + ")"
			}
			lines = append(lines, line)
		case seen.remarks[i] != nil:
			lines = append(lines, fmt.Sprintf("%s: %v", m.Address(), seen.remarks[i]))
		}
	}
	return lines
}

// of returns what was seen of a name.
func (seen observation) of(name string) lockOfNames {
	i := slices.IndexFunc(seen.locks, func(l lockOfNames) bool { return l.name == name })
	if i < 0 {
		return lockOfNames{name: name}
	}
	return seen.locks[i]
}

// quorate returns an error if fewer than a quorum of masters have answered.
func (seen observation) quorate() error {
	if seen.answered >= seen.need {
		return nil
	}
	return &statusError{exitNoQuorum, withHint(
		fmt.Errorf("%d of %s answered; %d are needed to know who holds a lock", seen.answered, plural(seen.masters, "master"), seen.need),
		"redlock doctor says more about each master")}
}

// short renders how long something lasts: to a tenth of a second below a minute.
func short(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return long(d)
}
