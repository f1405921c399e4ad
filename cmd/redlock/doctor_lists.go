package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/wire"
)

// Each client subscribes to a channel of its own on every master of its list, and its id says how many masters these are. So
// a client that listens on all masters of a list, and has as many, has this list, whatever names it uses for them.

// A stray is a client that has another list of masters than the doctor, or cannot reach some masters of this list.
type stray struct {
	id  string
	has int      // how many masters it has; 0 if its id does not say
	on  []string // masters of the doctor's list on which it listens
	off []string // masters of the doctor's list on which it does not
}

// strayPatience is for how long a client must be a stray. A client that starts or ends is connected to some masters only, and
// one that has lost a connection dials again within 1.5 s.
const strayPatience = 2 * time.Second

// strays returns the clients that were strays for some time, sorted by owner.
func (d *doctor) strays(ctx context.Context, findings []finding) []stray {
	found := straysOf(findings)
	for end := time.Now().Add(strayPatience); len(found) > 0 && time.Now().Before(end); {
		select {
		case <-time.After(strayPatience / 4):
		case <-ctx.Done():
			return nil
		}
		again := slices.Clone(findings)
		atOnce(d.masters, func(i int, m master) {
			if again[i].ids != nil {
				again[i].ids = idsOf(ctx, m)
			}
		})
		now := make(map[string]stray)
		for _, s := range straysOf(again) {
			now[s.id] = s
		}
		found = slices.DeleteFunc(found, func(s stray) bool { return now[s.id].id == "" })
		for i, s := range found {
			found[i] = now[s.id]
		}
	}
	return found
}

// idsOf asks a master for the clients that listen there. It returns nil if the master does not say.
func idsOf(ctx context.Context, m master) []string {
	conn, err := m.dial(ctx, doctorPatience)
	if err != nil {
		return nil
	}
	defer conn.Close()
	ids, _ := wakeClients(conn)
	return ids
}

// wakeClients returns the ids of the clients that listen at a server. Clients without a subscription do not listen.
func wakeClients(conn redis.Conn) ([]string, error) {
	channels, err := redis.Strings(conn.Do("PUBSUB", "CHANNELS", wire.WakeChannel+"*"))
	if err != nil {
		return nil, err
	}
	ids := []string{} // not nil
	for _, c := range channels {
		if !strings.HasPrefix(c, trialChannel) && !wire.IsListChannel(c) {
			ids = append(ids, strings.TrimPrefix(c, wire.WakeChannel))
		}
	}
	return ids, nil
}

// listeners returns on which of the masters each client listens, by their indexes.
func listeners(findings []finding) map[string]map[int]bool {
	on := make(map[string]map[int]bool)
	for i, f := range findings {
		for _, id := range f.ids {
			if on[id] == nil {
				on[id] = make(map[int]bool)
			}
			on[id][i] = true
		}
	}
	return on
}

// straysOf returns the clients that are strays now, sorted by owner. A client need not listen on a master that does not vote,
// or that does not say who listens.
func straysOf(findings []finding) (strays []stray) {
	for id, on := range listeners(findings) {
		s := stray{id: id, has: wire.MastersOf(id)}
		for i, f := range findings {
			switch {
			case on[i]:
				s.on = append(s.on, f.name)
			case f.ids != nil && f.refusal == nil:
				s.off = append(s.off, f.name)
			}
		}
		if len(s.off) > 0 || s.has > 0 && s.has != len(findings) {
			strays = append(strays, s)
		}
	}
	slices.SortFunc(strays, func(a, b stray) int { return cmp.Or(cmp.Compare(nameOf(a.id), nameOf(b.id)), cmp.Compare(a.id, b.id)) })
	return strays
}

// nameOf returns what a client is called: its owner, or else the beginning of its id.
func nameOf(id string) string {
	return cmp.Or(wire.OwnerOf(id), "client "+cut(redisconn.Printable(id), 12))
}

// describe says what is wrong with a client's list of masters, by the number of masters that the doctor has.
func (s stray) describe(masters int) string {
	text := ""
	if s.has > 0 && s.has != masters {
		text = fmt.Sprintf("has %s, not %d; ", plural(s.has, "master"), masters)
	}
	text += fmt.Sprintf("connected to %d of %d", len(s.on), masters)
	if len(s.off) > 0 {
		text += ", not to " + strings.Join(s.off, ", ")
	}
	return text
}

// namedMost is how many clients of one kind are named.
const namedMost = 10

// some returns the first names, and how many more there are.
func some(names []string) string {
	if more := len(names) - namedMost; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:namedMost], ", "), more)
	}
	return strings.Join(names, ", ")
}

// straysText says which clients are strays. Clients of which the same is to be said share a line.
func straysText(strays []stray, masters int) string {
	if len(strays) == 0 {
		return ""
	}
	names := make(map[string][]string)
	for _, s := range strays {
		what := s.describe(masters)
		names[what] = append(names[what], nameOf(s.id))
	}
	text := "Clients that have another list of masters, or cannot reach some:\n"
	for _, what := range slices.Sorted(maps.Keys(names)) {
		text += fmt.Sprintf("  %s: %s\n", some(names[what]), what)
	}
	return text + "Two clients with different lists can hold the same lock at once.\n"
}
