package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/redisserver"
)

var errReplica = errors.New("it is a replica")

// TestTheRuleForTwoListsIsExact compares the rule with all pairs of quorums.
func TestTheRuleForTwoListsIsExact(t *testing.T) {
	const universe = 7
	random := rand.New(rand.NewPCG(1, 2))
	exclusive, shared := 0, 0
	for range 2000 {
		old, next, voters := random.IntN(1<<universe-1)+1, random.IntN(1<<universe-1)+1, random.IntN(1<<universe)
		voters |= old & next // masters that stay count
		var servers []listed
		for i := range universe {
			s := listed{finding: finding{name: fmt.Sprint(i), ids: []string{}}, old: old>>i&1 == 1, next: next>>i&1 == 1}
			if voters>>i&1 == 0 {
				s.refusal = errReplica
			}
			if s.old || s.next {
				servers = append(servers, s)
			}
		}
		c := listChangeOf(servers)
		quorums := func(list int) (all []int) { // of servers that can vote
			for q := range 1 << universe {
				if q&^(list&voters) == 0 && bits.OnesCount(uint(q)) == bits.OnesCount(uint(list))/2+1 {
					all = append(all, q)
				}
			}
			return all
		}
		disjoint := false
		ofOld, ofNext := quorums(old), quorums(next)
		for _, q := range ofOld {
			disjoint = disjoint || slices.ContainsFunc(ofNext, func(p int) bool { return p&q == 0 })
		}
		if got := c.exclusive(c.able); got == disjoint && (got || len(ofOld) > 0 && len(ofNext) > 0) {
			t.Fatalf("lists %07b and %07b, of which %07b can vote: exclusive = %v, but disjoint quorums: %v", old, next, voters, got, disjoint)
		}
		if disjoint {
			shared++
		} else {
			exclusive++
		}
	}
	if exclusive < 200 || shared < 200 {
		t.Errorf("%d lists exclude each other, and %d do not: too few cases", exclusive, shared)
	}
}

func TestTheNextStepOfAChangeOfTheList(t *testing.T) {
	const id = "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT" // then the number of masters: C for 3, E for 5
	three, five := id+"C@web", id+"E@web"
	// A server is written as its list, s(tays), l(eaves) or c(omes), its state, and who listens there, of 3 and 5.
	parse := func(text string) (servers []listed) {
		for i, word := range strings.Fields(text) {
			s := listed{old: word[0] != 'c', next: word[0] != 'l', finding: finding{name: string('a' + rune(i)), ids: []string{}}}
			switch word[1] {
			case 'v': // can vote
			case 'n': // new
				s.look.Why = incarnation.Absent
			case 'r': // a replica
				s.refusal = errReplica
			case 'd': // down
				s.failure, s.down, s.ids = errors.New("not reachable: connection refused"), true, nil
			case 't': // no answer
				s.failure, s.ids = errors.New("not reachable: no answer within 3s"), nil
			case 'g': // down, and --stopped-for-good
				s.failure, s.down, s.stopped, s.ids = errors.New("not reachable: connection refused"), true, true, nil
			}
			if strings.Contains(word, "3") {
				s.ids = append(s.ids, three)
			}
			if strings.Contains(word, "5") {
				s.ids = append(s.ids, five)
			}
			servers = append(servers, s)
		}
		return servers
	}
	const wait = "wait until 12s after the last vote was taken"
	for _, tt := range []struct {
		name, servers string
		safe          bool
		wants         []string
		not           string
	}{
		{"replace: the new one is not started", "sv3 sv3 lv3 cd", true, []string{"c: leaves; it can vote", "d: comes; it is not started",
			"Clients with the old list: web", "Clients with either list exclude each other.", "Next: restart the clients"}, "Next: start"},
		{"replace: both run", "sv3 sv3 lv3 cn", false, []string{"4 servers can vote; the lists need 2 and 2.", "Next: take the vote of c",
			"Start d after that"}, "exclude each other"},
		{"replace: the old one lost its vote", "sv3 sv3 lr3 cn", true, []string{"c: leaves; it has lost its vote", "Next: restart the clients"}, wait},
		{"replace: and the new one has been used", "sv3 sv3 lr3 cv", true, []string{wait, "Next: restart the clients"}, "Next: take"},
		{"replace: the old one lost its vote, the new one is not started", "sv3 sv3 lr3 cd", true, []string{"Next: start d, empty, do not adopt it, and restart"}, wait},
		{"replace: the old one does not answer", "sv3 sv3 ld cv", false, []string{"since it may come back", "If c will not come back", "--stopped-for-good"}, "stop it and disable"},
		{"replace: the old one is cut off from the doctor", "sv3 sv3 lt cv", false, []string{"since it may come back"}, "exclude each other"},
		{"replace: the old one was destroyed", "sv3 sv3 lg cv", true, []string{"Clients with the old list: web", wait}, "--stopped-for-good"},
		{"replace: the new one is cut off from the doctor", "sv3 sv3 lv3 ct", false, []string{"Next: take the vote of c"}, "exclude each other"},
		{"replace: all clients have the next list", "sv3 sv3 lr cv3", true, []string{"Clients with the next list: web", "The change is complete"}, "wait"},
		{"replace: nobody can tell", "sv3 sv3 lg cd", true, []string{"Clients with either list: web"}, "complete"},
		{"replace: a client has neither list", "sv3 sv3 lr cv", true, []string{"Clients with another list: web"}, "old list: web"},
		{"replace two of five", "sv5 sv5 sv5 lr5 lv5 cn cn", false, []string{"6 servers can vote; the lists need 3 and 3.", "Next: take the vote of e"}, "of d"},
		{"grow: not started", "sv3 sv3 sv3 cd cd", true, []string{"3 servers can vote; the lists need 2 and 3.", "Next: restart the clients"}, "Next: start"},
		{"grow: one started", "sv3 sv3 sv3 cn cd", true, []string{"4 servers can vote"}, "Next: start"},
		{"grow: started too early", "sv3 sv3 sv3 cn cn", false, []string{"Next: stop d, e, until no client has the old list"}, "exclude each other"},
		{"grow: no client has the old list", "sv5 sv5 sv5 cd cd", true, []string{"Clients with the next list: web", "Next: start d, e, empty"}, "restart"},
		{"grow: complete", "sv5 sv5 sv5 cv5 cv5", true, []string{"No connected client has the old list.", "The change is complete"}, "Next:"},
		{"shrink: nothing was done", "sv5 sv5 sv5 lv5 lv5", false, []string{"5 servers can vote; the lists need 3 and 2.", "Next: take the vote of d, e"}, "exclude each other"},
		{"shrink: one has lost its vote", "sv5 sv5 sv5 lr5 lv5", true, []string{"Next: restart"}, "\x00"},
		{"shrink: both have lost their votes", "sv5 sv5 sv5 lr5 lr5", true, []string{"earlier votes of d, e: wait until", "Next: restart"}, "\x00"},
		{"shrink: both were destroyed", "sv5 sv5 sv5 lg lg", true, []string{"Clients with the old list: web", "earlier votes of d, e: wait until"}, "complete"},
		{"shrink: complete", "sv3 sv3 sv3 lr lr", true, []string{"The change is complete"}, "wait"},
		{"no list in common", "lv3 lv3 lv3 cn cn cn", false, []string{"Next: take the vote of a, b, c"}, "exclude each other"},
		{"the masters do not say who listens", "st st lt cv", false, []string{"can be missing here"}, "No connected client"},
		{"no client is connected", "sv sv lv cv", true, []string{"No connected client has the old list.", "complete"}, "exclude each other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := listChangeOf(parse(tt.servers))
			text := c.text("12s")
			if c.safe() != tt.safe {
				t.Errorf("safe = %v, want %v:\n%s", c.safe(), tt.safe, text)
			}
			want(t, text, tt.wants...)
			if strings.Contains(text, tt.not) {
				t.Errorf("the text has %q:\n%s", tt.not, text)
			}
		})
	}
}

// TestDoctorLeadsThroughAReplacement follows what the doctor says, with a client with either list.
func TestDoctorLeadsThroughAReplacement(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 4)
	old, next := listOf(servers[:3]), local(listOf(servers[:2]))+","+servers[3].Addr()
	gone, comes := servers[2], servers[3]
	openQuietly(t, old, redlock.Options{Owner: "web-1"})
	openQuietly(t, next, redlock.Options{Owner: "web-2"})
	until(t, func() bool {
		return len(listening(t, servers[0])) == 2 && len(listening(t, servers[1])) == 2 && len(listening(t, gone)) == 1 && len(listening(t, comes)) == 1
	})
	out := runDoctor(t, exitFailure, old, "--next", next)
	want(t, out, servers[0].Addr()+": stays\n", gone.Addr()+": leaves; it can vote\n", comes.Addr()+": comes; it can vote\n",
		"4 servers can vote; the lists need 2 and 2.\n", "Clients with the old list: web-1\n", "Clients with the next list: web-2\n",
		"Clients with different lists can hold the same lock at once.\n", "REPLICAOF 127.0.0.1 1\n")
	wantNarrow(t, out)

	do(t, gone, "REPLICAOF", "127.0.0.1", "1")
	out = runDoctor(t, exitOK, old, "--next", next)
	want(t, out, gone.Addr()+": leaves; it has lost its vote\n", "3 servers can vote", "Clients with either list exclude each other.\n",
		"until 12s after the last vote was taken", "Next: restart the clients with the old list")

	if err := gone.Kill(); err != nil {
		t.Fatal(err)
	}
	want(t, runDoctor(t, exitFailure, old, "--next", next), "since it may come back", "--stopped-for-good")
	var says struct {
		Servers []struct {
			Name, Is, State string
			Able            bool
		}
		NeedOld, NeedNext, Able int
		Safe, Sure              bool
		Old, Next, Steps        []string
	}
	if err := json.Unmarshal([]byte(runDoctor(t, exitOK, old, "--next", next, "--stopped-for-good", "--json")), &says); err != nil {
		t.Fatal(err)
	}
	if len(says.Servers) != 4 || says.Servers[2].Is != "leaves" || says.Servers[2].Able || says.Able != 3 || !says.Safe || !says.Sure ||
		!slices.Equal(says.Old, []string{"web-1"}) || !slices.Equal(says.Next, []string{"web-2"}) || len(says.Steps) != 1 {
		t.Errorf("as JSON: %+v", says)
	}
}
