package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Traits are what differs between the clients of one run. Peers have the settings that their documentation recommends.
type traits struct {
	Clients int           // open clients in one process, which exclude each other
	TTL     time.Duration // of Lockers
	Renewed bool          // the leases of Lockers are renewed
	Drift   float64       // Options.DriftFactor; 0: the default
	Polls   bool          // Options.DisableWakeups
	Denied  string        // the command that the client's user may not use; "": it may use all
	Stepped bool          // the wall clock of the process is set while it runs
	Off     time.Duration // how far off that clock is before
}

// drawing says that traits are drawn (-traits). Otherwise all clients have the defaults, and the fifth polls.
var drawing bool

// drawTraits draws the traits of a client. The first one has the defaults.
func drawTraits(seed uint64, client int, ttl time.Duration) traits {
	t := traits{Clients: 1, TTL: ttl, Renewed: true, Polls: client == 4}
	if client == 0 || !drawing {
		return t
	}
	rng := rand.New(rand.NewPCG(seed, uint64(1000+client)))
	t.Clients = []int{1, 1, 1, 2}[rng.IntN(4)]
	t.TTL = []time.Duration{ttl, ttl, ttl * 3 / 4}[rng.IntN(3)] // NodeTimeout follows it: less would be too short for a busy machine
	t.Renewed = rng.IntN(4) > 0
	t.Drift = []float64{0, 0, 0.1, 0.2}[rng.IntN(4)]
	if !t.Polls {
		t.Denied = []string{"", "", "subscribe", "pubsub"}[rng.IntN(4)]
	}
	t.Stepped = rng.IntN(2) == 0
	return t
}

func (t traits) String() string {
	all := []string{fmt.Sprintf("%d open, TTL %v", t.Clients, t.TTL)}
	if !t.Renewed {
		all = append(all, "without renewal")
	}
	if t.Drift > 0 {
		all = append(all, fmt.Sprintf("drift %g", t.Drift))
	}
	if t.Polls {
		all = append(all, "without wake-ups")
	}
	if t.Denied != "" {
		all = append(all, "without the right to "+strings.ToUpper(t.Denied))
	}
	switch {
	case t.Off != 0:
		all = append(all, fmt.Sprintf("its clock is off by %v", t.Off))
	case t.Stepped:
		all = append(all, "its clock is set")
	}
	return strings.Join(all, ", ")
}

// permitTraits returns the traits of a client that acquires permits: it has wake-ups, which semaphores need. Its wall clock is off from the
// beginning. Otherwise fences, which follow the clocks, would also rise if the masters forgot them.
func permitTraits(t traits, rng *rand.Rand) traits {
	t.Polls, t.Stepped = false, true
	t.Off = time.Duration(rng.Int64N(int64(2*maxClientOffset))) - maxClientOffset
	return t
}

// turnMost is for how long a client waits for its turn at most, once all masters vote, if one client polls. It is as long for each further one.
const turnMost = 6 * time.Second

// pollers returns how many clients poll.
func pollers(seed uint64, clients int, ttl time.Duration) (n int) {
	for i := range clients {
		if t := drawTraits(seed, i, ttl); t.Polls || t.Denied == "subscribe" {
			n++
		}
	}
	return n
}

// userOf returns the user of a client.
func userOf(client int) string { return fmt.Sprintf("client-%d", client) }

// users returns the arguments of redis-server for the users of clients.
func users(seed uint64, clients int, ttl time.Duration) (args []string) {
	for i := range clients {
		rules := userOf(i) + " on nopass ~* &* +@all"
		if denied := drawTraits(seed, i, ttl).Denied; denied != "" {
			rules += " -" + denied
		}
		args = append(append(args, "--user"), strings.Fields(rules)...)
	}
	return args
}
