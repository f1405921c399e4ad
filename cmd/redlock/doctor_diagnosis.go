package main

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// A diagnosis is what the findings add up to.
type diagnosis struct {
	*doctor
	n        int // how many masters there are
	need     int // for a quorum
	now      int // may vote at once
	later    int // may vote when time has passed, beside those
	lacking  bool
	host     string        // the machine with so many masters that there is no quorum without it; empty for none
	onHost   int           // how many these are
	wait     time.Duration // until a quorum may vote, if now and later are one
	timeout  time.Duration // NodeTimeout
	strays   []stray
	farthest time.Duration // round trip to the farthest master that a quorum needs; 0 if too few answer
}

// diagnose adds up findings.
func (d *doctor) diagnose(findings []finding) diagnosis {
	sum := diagnosis{doctor: d, n: len(findings), need: quorum.Majority(len(findings)), timeout: d.nodeTimeout}
	var waits, trips []time.Duration
	hosts := make(map[string]int)
	for _, f := range findings {
		if f.rtt > 0 {
			trips = append(trips, f.rtt)
		}
		sum.lacking = sum.lacking || len(f.lacks) > 0
		if f.host != "" {
			hosts[f.host]++
		}
		wait, ok := f.wait(d.quarantine())
		switch {
		case ok && wait == 0:
			sum.now++
		case ok:
			sum.later++
			waits = append(waits, wait)
		}
	}
	for host, n := range hosts {
		if n > sum.onHost && len(findings)-n < sum.need {
			sum.host, sum.onHost = host, n
		}
	}
	if missing := sum.need - sum.now; missing > 0 && missing <= len(waits) {
		slices.Sort(waits)
		sum.wait = waits[missing-1]
	}
	if slices.Sort(trips); len(trips) >= sum.need {
		sum.farthest = trips[sum.need-1]
	}
	if d.automatic() {
		sum.timeout = quorum.Automatic(d.ttl).For(sum.farthest)
	}
	return sum
}

func (d diagnosis) String() string {
	text := fmt.Sprintf("%d of %s can vote now", d.now, plural(d.n, "master"))
	if d.now < d.need && d.later > 0 && d.wait == 0 {
		text += fmt.Sprintf(", %d more after %s", d.later, whole(d.quarantine()))
	}
	text += fmt.Sprintf("; a lock needs %d.\n", d.need)
	switch {
	case d.now >= d.need:
	case d.wait > 0:
		text += fmt.Sprintf("Locks have to wait %s, until locks that the masters may have lost have run out "+
			"(MaxTTL is %v). Only if nobody holds a lock on these masters, let them vote now:\n"+
			"  redlock doctor %s\n", whole(d.wait), d.agreed, adoptFlags(d.n))
	default:
		text += "No lock can be acquired until more masters answer and may vote.\n"
	}
	if d.agreed > d.maxTTL {
		text += fmt.Sprintf("A client has declared a MaxTTL of %v: when a majority restarts, locks have to wait for %v. If no client "+
			"needs it, stop all clients, and lower it:\n  redlock doctor %s --max-ttl %v\n",
			d.agreed, whole(d.quarantine()), adoptFlags(d.n), d.maxTTL)
	}
	if d.lacking {
		text += "The rights that clients need are printed by:  redlock doctor --acl\n"
	}
	return text + straysText(d.strays, d.n) + d.advice()
}

// advice says what is wrong with the distances and the number of masters, if anything is.
func (d diagnosis) advice() string {
	text := ""
	timeout := fmt.Sprintf("NodeTimeout, %v", d.timeout)
	if d.automatic() {
		timeout = fmt.Sprintf("the automatic NodeTimeout, %v for a TTL of %v", d.timeout, d.ttl)
	}
	farthest := "A round trip to the farthest master that a quorum needs takes " + milliseconds(d.farthest)
	switch {
	case d.farthest == 0:
	case d.tooFar():
		text = fmt.Sprintf("%s, longer than %s: no lock can be acquired. Use a longer NodeTimeout%s.\n",
			farthest, timeout, map[bool]string{true: " or TTL"}[d.automatic()])
	case 2*d.farthest > d.timeout:
		text = fmt.Sprintf("%s, more than half of %s: locks can fail on a busy network. Use a longer NodeTimeout%s.\n",
			farthest, timeout, map[bool]string{true: " or TTL"}[d.automatic()])
	case d.automatic() && d.timeout > quorum.LeastTimeout:
		text = fmt.Sprintf("%s, so the automatic NodeTimeout is %v.\n", farthest, d.timeout)
	}
	if dialTrips*d.farthest > dialTimeout {
		text += fmt.Sprintf("Connecting takes up to %d round trips: Options.DialTimeout, %v by default, may be too short.\n", dialTrips, dialTimeout)
	}
	switch {
	case d.n == 1:
		text += "One master tolerates no failure: while it is down there are no locks. Use three.\n"
	case d.n == 2:
		text += "Two masters tolerate no failure, as one does, and two can fail. Use one or three.\n"
	case d.host != "":
		text += fmt.Sprintf("%d of %d masters are on %s: without it there are no locks. Use a machine for each.\n", d.onHost, d.n, d.host)
	}
	if n := d.n; n > 2 && n%2 == 0 {
		text += fmt.Sprintf("%d masters tolerate %s, as %d do. Use an odd number.\n", n, plural(n-d.need, "failure"), n-1)
	}
	return text
}

// What connecting may take: with TLS, AUTH, SELECT and the questions of the restart guard, and
// the default of Options.DialTimeout.
const (
	dialTrips   = 9
	dialTimeout = time.Second
)

// tooFar reports whether the masters that a quorum needs answer later than is waited for.
func (d diagnosis) tooFar() bool { return d.farthest >= d.timeout }

// hostOf returns the machine of a master by its address.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "localhost" { // a path of a socket
		return "this machine"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return "this machine"
	}
	return host
}
