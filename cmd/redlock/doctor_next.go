package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// Two lists of masters exclude each other if their quorums together are larger than the number of servers in either list that
// can vote: then every quorum of one list has a server in common with every quorum of the other.

// A listed is a server of the old list of masters, of the next list, or of both.
type listed struct {
	finding
	old, next bool
	stopped   bool // if it does not answer, it will not come back
}

func (s listed) stays() bool  { return s.old && s.next }
func (s listed) leaves() bool { return s.old && !s.next }
func (s listed) comes() bool  { return !s.old }

// able reports whether a server can vote, now or later without anybody doing anything. A server that stays counts whatever its
// state is.
func (s listed) able() bool {
	switch {
	case s.stays():
		return true
	case s.failure != nil && s.leaves():
		return !s.stopped // it may come back
	case s.failure != nil:
		return !s.down // it is not started yet
	}
	return s.refusal == nil || s.refusal == errLacks // clients may log in as another user
}

// used reports whether a server may have voted lately.
func (s listed) used() bool {
	return !s.comes() || s.able() && (s.failure != nil || s.look.Why != incarnation.Absent)
}

// state says what becomes of a server, and whether it can vote.
func (s listed) state() string {
	switch {
	case s.stays() && s.failure == nil:
		return "stays"
	case s.stays():
		return "stays; " + s.failure.Error()
	case s.leaves() && s.able() && s.failure != nil:
		return "leaves; it counts as able to vote, since it may come back: " + s.failure.Error()
	case s.leaves() && s.able():
		return "leaves; it can vote"
	case s.leaves():
		return "leaves; it has lost its vote"
	case !s.able() && s.down:
		return "comes; it is not started"
	case !s.able():
		return "comes; it must not vote: " + s.refusal.Error()
	case !s.used():
		return "comes; no client has used it yet"
	}
	return "comes; it can vote"
}

// A listChange is from the old list of masters to the next.
type listChange struct {
	servers           []listed
	needOld, needNext int  // for a quorum
	able              int  // servers that can vote
	lately            int  // servers that may have voted within the last quarantine
	sure              bool // every client with the old list is seen, unless it has no subscription

	withOld, withNext, withEither, withOther []string // clients, by the list that they have
}

// listChangeOf adds up what the servers say.
func listChangeOf(servers []listed) *listChange {
	c := &listChange{servers: servers}
	nOld, nNext, silent := 0, 0, 0
	for _, s := range servers {
		if s.old {
			nOld++
			if s.ids == nil {
				silent++
			}
		}
		if s.next {
			nNext++
		}
		if s.able() {
			c.able++
		}
		if s.used() {
			c.lately++
		}
	}
	c.needOld, c.needNext = quorum.Majority(nOld), quorum.Majority(nNext)
	c.sure = silent < c.needOld // a client that can lock listens on a quorum
	findings := make([]finding, len(servers))
	for i, s := range servers {
		findings[i] = s.finding
	}
	for id, on := range listeners(findings) {
		list := c.listOf(id, on, nOld, nNext)
		*list = append(*list, nameOf(id))
	}
	for _, names := range [][]string{c.withOld, c.withNext, c.withEither, c.withOther} {
		slices.Sort(names)
	}
	return c
}

// listOf returns the clients that have the same list as this one, by the servers on which it listens.
func (c *listChange) listOf(id string, on map[int]bool, nOld, nNext int) *[]string {
	left, missed := false, false // it listens on a server that leaves; not on one that does and has clients
	came, lacks := false, false  // the same for servers that come
	for i, s := range c.servers {
		switch {
		case s.leaves():
			left, missed = left || on[i], missed || s.ids != nil && !on[i]
		case s.comes():
			came, lacks = came || on[i], lacks || s.ids != nil && s.able() && !on[i]
		}
	}
	has := wire.MastersOf(id)
	switch {
	case left && came, has > 0 && has != nOld && has != nNext:
		return &c.withOther
	case left, has == nOld && nOld != nNext:
		return &c.withOld
	case came, has == nNext && nOld != nNext:
		return &c.withNext
	case lacks && missed:
		return &c.withOther
	case lacks:
		return &c.withOld
	case missed:
		return &c.withNext
	}
	return &c.withEither
}

// exclusive reports whether clients with either list exclude each other if so many servers can vote.
func (c *listChange) exclusive(able int) bool { return c.needOld+c.needNext > able }

// over reports whether no client has the old list any more.
func (c *listChange) over() bool { return c.sure && len(c.withOld)+len(c.withEither) == 0 }

// safe reports whether clients may have the next list now.
func (c *listChange) safe() bool { return c.exclusive(c.able) || c.over() }

// names returns the names of some servers.
func (c *listChange) names(which func(listed) bool) string {
	var names []string
	for _, s := range c.servers {
		if which(s) {
			names = append(names, s.name)
		}
	}
	return strings.Join(names, ", ")
}

func ableToLeave(s listed) bool { return s.leaves() && s.able() }
func ableToCome(s listed) bool  { return s.comes() && s.able() }
func notStarted(s listed) bool  { return s.comes() && s.down }
func answers(s listed) bool     { return s.failure == nil }

// started returns how many servers can vote when those that come are started.
func (c *listChange) started() (n int) {
	for _, s := range c.servers {
		if s.able() || notStarted(s) {
			n++
		}
	}
	return n
}

// roll is how clients get the next list.
const roll = "restart the clients with the old list, one after the other, with the next list."

// steps returns what to do next.
func (c *listChange) steps() (lines []string) {
	leave, come := c.names(ableToLeave), c.names(ableToCome)
	leaveUp := c.names(func(s listed) bool { return ableToLeave(s) && answers(s) })
	leaveDown := c.names(func(s listed) bool { return ableToLeave(s) && !answers(s) })
	switch {
	case !c.safe() && leave != "":
		if leaveUp != "" {
			lines = append(lines, "Next: take the vote of "+leaveUp+", for good: stop it and disable its service, or there:",
				"  REPLICAOF 127.0.0.1 1", "  CONFIG REWRITE")
		}
		if leaveDown != "" {
			lines = append(lines, "If "+leaveDown+" will not come back, because it was destroyed or its service is disabled: --stopped-for-good")
		}
		if come != "" {
			lines = append(lines, "Start "+come+" after that, or give no client the next list before.")
		}
	case !c.safe() && come != "":
		lines = append(lines, "Next: stop "+come+", until no client has the old list.")
	case !c.safe():
		lines = append(lines, "The lists differ too much: no server that leaves or comes can vote. Change the list in several steps.")
	case c.over() && c.names(notStarted) != "":
		lines = append(lines, "Next: start "+c.names(notStarted)+", empty. Do not adopt it.")
	case c.over():
		lines = append(lines, "The change is complete: no connected client has the old list.")
	case c.names(notStarted) != "" && c.exclusive(c.started()):
		lines = append(lines, "Next: start "+c.names(notStarted)+", empty, do not adopt it, and "+roll)
	default:
		lines = append(lines, "Next: "+roll)
	}
	return lines
}

// compare says what a change from d.masters to next needs.
func (d *doctor) compare(ctx context.Context, out io.Writer, next []master, stopped bool) error {
	both := &doctor{masters: slices.Clone(d.masters), prefix: d.prefix, maxTTL: d.maxTTL, ttl: d.ttl}
	for _, m := range next {
		if slices.ContainsFunc(d.masters, func(o master) bool { return o.Address() == m.Address() && o.Database() != m.Database() }) {
			return usageErrorf("--next has another database of %s: its locks are others, so stop all clients to change it", m.Address())
		}
		if !slices.ContainsFunc(d.masters, func(o master) bool { return o.Address() == m.Address() }) {
			both.masters = append(both.masters, m)
		}
	}
	findings := both.examineAll(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	servers := make([]listed, 0, len(findings))
	for i, f := range findings {
		s := listed{finding: f, old: i < len(d.masters), stopped: stopped}
		s.next = slices.ContainsFunc(next, func(m master) bool { return m.Address() == f.name })
		if at := slices.IndexFunc(servers, func(o listed) bool { return o.name == f.same }); f.same != "" && at >= 0 {
			servers[at].old, servers[at].next = servers[at].old || s.old, servers[at].next || s.next
			continue
		}
		servers = append(servers, s)
	}
	c := listChangeOf(servers)
	if d.json {
		if err := c.printJSON(out); err != nil {
			return err
		}
	} else {
		fmt.Fprint(out, fold(c.text(whole(both.quarantine())), "", ""))
	}
	if !c.safe() {
		return &statusError{exitFailure, errors.New("no client may have the next list of masters yet")}
	}
	return nil
}

// text returns all that is known about the change.
func (c *listChange) text(quarantine string) string {
	var b strings.Builder
	for _, s := range c.servers {
		fmt.Fprintf(&b, "%s: %s\n", s.name, s.state())
	}
	fmt.Fprintf(&b, "\n%s can vote; the lists need %d and %d.\n", plural(c.able, "server"), c.needOld, c.needNext)
	for _, clients := range []struct {
		list  string
		names []string
	}{{"with the old list", c.withOld}, {"with the next list", c.withNext}, {"with either list", c.withEither}, {"with another list", c.withOther}} {
		if len(clients.names) > 0 {
			fmt.Fprintf(&b, "Clients %s: %s\n", clients.list, some(clients.names))
		}
	}
	if !c.sure {
		b.WriteString("So many masters do not say who listens there that clients with the old list can be missing here.\n")
	}
	switch {
	case c.exclusive(c.able):
		b.WriteString("Clients with either list exclude each other.\n")
		if left := c.names(listed.leaves); left != "" && !c.exclusive(c.lately) && !c.over() {
			fmt.Fprintf(&b, "But locks can rest on earlier votes of %s: wait until %s after the last vote was taken.\n", left, quarantine)
		}
	case c.safe():
		b.WriteString("No connected client has the old list.\n")
	default:
		b.WriteString("Clients with different lists can hold the same lock at once.\n")
	}
	return b.String() + strings.Join(c.steps(), "\n") + "\n"
}

// printJSON prints the change as one line.
func (c *listChange) printJSON(out io.Writer) error {
	type jsonServer struct {
		Name  string `json:"name"`
		Is    string `json:"is"`   // stays, leaves or comes
		Able  bool   `json:"able"` // it can vote
		State string `json:"state"`
	}
	all := struct {
		Servers  []jsonServer `json:"servers"`
		NeedOld  int          `json:"need_old"` // for a quorum
		NeedNext int          `json:"need_next"`
		Able     int          `json:"able"`   // servers that can vote
		Safe     bool         `json:"safe"`   // clients may have the next list now
		Sure     bool         `json:"sure"`   // every client with the old list is seen
		Old      []string     `json:"old"`    // clients with the old list
		Next     []string     `json:"next"`   // clients with the next list
		Either   []string     `json:"either"` // clients with one of them
		Other    []string     `json:"other"`  // clients with another list
		Steps    []string     `json:"steps"`  // what to do next
	}{NeedOld: c.needOld, NeedNext: c.needNext, Able: c.able, Safe: c.safe(), Sure: c.sure, Steps: c.steps(),
		Old: c.withOld, Next: c.withNext, Either: c.withEither, Other: c.withOther}
	for _, names := range []*[]string{&all.Old, &all.Next, &all.Either, &all.Other} {
		*names = append([]string{}, *names...)
	}
	for _, s := range c.servers {
		is := cmp.Or(map[bool]string{true: "stays"}[s.stays()], map[bool]string{true: "leaves", false: "comes"}[s.leaves()])
		all.Servers = append(all.Servers, jsonServer{s.name, is, s.able(), s.state()})
	}
	return writeJSON(out, all)
}
