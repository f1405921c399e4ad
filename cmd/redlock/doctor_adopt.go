package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/quorum"
)

// adoptAll adopts the masters whose votes do not count yet. It adopts none if somebody may
// hold a lock on any of them, unless it is forced to. It returns a line on each master, and an
// error if it refused.
func (d *doctor) adoptAll(ctx context.Context, findings []finding) (lines []string, err error) {
	if !slices.ContainsFunc(findings, d.adoptable) {
		return d.adoptThose(ctx, findings), nil
	}
	doubts := make([][]string, len(findings)) // by master: why somebody may hold a lock there
	atOnce(d.masters, func(i int, m master) { doubts[i] = d.doubt(ctx, m, findings[i]) })
	for i, f := range findings {
		for _, doubt := range doubts[i] {
			lines = append(lines, fmt.Sprintf("%s: %s", f.name, doubt))
		}
	}
	if doubt := d.partial(findings); doubt != "" {
		lines = append(lines, doubt)
	}
	if strays := straysOf(findings); len(strays) > 0 {
		lines = append(lines, strings.TrimSuffix(straysText(strays, len(findings)), "\n"),
			"Give --masters the whole list that the clients have.")
	}
	if len(lines) > 0 && !d.force {
		return lines, &statusError{exitFailure, withHint(
			errors.New("no master was adopted, since somebody may hold a lock on them"),
			"stop all clients, or wait until their locks have run out; or, only if you know that nobody "+
				"holds a lock: --adopt --force. If somebody does, a second client can get the same lock")}
	}
	if len(lines) > 0 {
		lines = append(lines, "Adopting all the same: if somebody holds a lock, a second client can get it too.")
	}
	return append(lines, d.adoptThose(ctx, findings)...), nil
}

// adoptFlags returns the flags that adopt so many masters.
func adoptFlags(masters int) string {
	if masters == 1 {
		return "--adopt --single"
	}
	return "--adopt"
}

// adoptable reports whether adopting a master makes a difference.
func (d *doctor) adoptable(f finding) bool {
	wait, ok := f.wait(d.quarantine())
	return ok && (wait > 0 || d.lowers(f))
}

// lowers reports whether adopting a master lowers its MaxTTL to that of --max-ttl.
func (d *doctor) lowers(f finding) bool { return d.lower && f.look.Record.MaxTTL > d.maxTTL }

// partial returns why these masters may not be all that the clients have, or had, or "". A new master that replaces
// another one has no locks and no clients, but a lock may still be valid by the votes of the other one. The
// quarantine of the new master outlasts that lock. With the whole list, the lock is found on the masters that stay,
// if these are so many that every quorum has one of them.
func (d *doctor) partial(findings []finding) string {
	servers, used := 0, 0
	for _, f := range findings {
		if f.same == "" {
			servers++
		}
		if f.look.Why == incarnation.Holds && f.look.Record.MaxTTL > 0 { // a client has declared its MaxTTL there
			used++
		}
	}
	n := len(findings)
	switch {
	case servers == 1 && !d.single:
		return findings[0].name + ": this is one server only. If it replaces a master, its quarantine protects the locks " +
			"that the other one has granted: do not adopt it, or give --masters the whole list. If clients have this one master: --single"
	case used > 0 && used <= n-quorum.Majority(n):
		return fmt.Sprintf("only %d of %d masters have been used: the others may have lost locks, or replace masters that had some", used, n)
	}
	return ""
}

// adoptThose adopts the masters that may vote, and returns a line on each.
func (d *doctor) adoptThose(ctx context.Context, findings []finding) []string {
	lines := make([]string, len(findings))
	atOnce(d.masters, func(i int, m master) {
		f := findings[i]
		lines[i] = f.name + ": adopted"
		maxTTL := time.Duration(0) // the clients declare theirs
		if d.lowers(f) {
			maxTTL = d.maxTTL
			lines[i] += fmt.Sprintf("; its MaxTTL is lowered from %v to %v", f.look.Record.MaxTTL, maxTTL)
		}
		if _, ok := f.wait(d.quarantine()); !ok {
			lines[i] = fmt.Sprintf("%s: not adopted: %s", f.name, f.why()[0])
		} else if !d.adoptable(f) {
			lines[i] = fmt.Sprintf("%s: not adopted: its votes count already", f.name)
		} else if err := adopt(ctx, m, maxTTL, len(d.masters)); err != nil {
			lines[i] = fmt.Sprintf("%s: not adopted: %v", f.name, err)
		}
	})
	return lines
}

// adopt declares that nobody holds a lock on a master, and that this is the largest MaxTTL.
func adopt(ctx context.Context, m master, maxTTL time.Duration, masters int) error {
	conn, err := m.dial(ctx, doctorPatience)
	if err != nil {
		return plain(err)
	}
	defer conn.Close()
	if _, err := incarnation.Adopt(conn, maxTTL, masters); err != nil {
		return plain(err)
	}
	return nil
}

// doubt returns why somebody may hold a lock on a master. A master that must not vote grants
// no locks, so there is nothing to doubt.
func (d *doctor) doubt(ctx context.Context, m master, f finding) (doubts []string) {
	switch {
	case f.refusal != nil:
		return nil
	case f.failure != nil:
		return []string{fmt.Sprintf("cannot tell whether it holds locks: %v", f.failure)}
	}
	wait, _ := f.wait(d.quarantine())
	switch {
	case wait == 0 || f.look.Why == incarnation.Absent:
		// Its data is old or adopted; or there is no record. Then nobody can tell whether redlock
		// has ever used it, and the user says that it has not.
	case f.look.Why != incarnation.Holds:
		doubts = append(doubts, fmt.Sprintf("%s: locks from before may last up to %v", f.look.Why, whole(d.quarantine())))
	default:
		doubts = append(doubts, fmt.Sprintf("its memory is known for %s only: locks from before may last %s more, and then it votes anyway",
			long(f.look.Age()), whole(wait)))
	}
	conn, err := m.dial(ctx, doctorPatience)
	if err != nil {
		_, why := failureOf(err)
		return append(doubts, fmt.Sprintf("cannot tell whether it holds locks: %v", why))
	}
	defer conn.Close()
	clients, err := wakeClients(conn)
	switch {
	case err != nil:
		doubts = append(doubts, fmt.Sprintf("cannot tell whether clients are connected: PUBSUB CHANNELS: %v", plain(err)))
	case len(clients) > 0:
		doubts = append(doubts, fmt.Sprintf("connected clients that may hold locks: %d", len(clients)))
		if d.lowers(f) {
			doubts = append(doubts, fmt.Sprintf("connected clients declare the MaxTTL of %v again", f.look.Record.MaxTTL))
		}
	}
	key, left, err := findLock(conn, d.prefix, scanMost)
	switch {
	case err != nil:
		doubts = append(doubts, fmt.Sprintf("cannot tell whether it holds locks: %v", plain(err)))
	case key != "":
		doubts = append(doubts, fmt.Sprintf("it has what looks like a lock, %q, %s", key, left))
	}
	return doubts
}

// expires says when a key with this PTTL expires.
func expires(ms int64) string {
	if ms < 0 {
		return "which does not expire"
	}
	return "which expires in " + whole(time.Duration(min(ms, int64(365*24*time.Hour/time.Millisecond)))*time.Millisecond)
}
