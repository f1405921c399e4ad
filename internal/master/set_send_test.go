package master

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A command for several names must have the effect, and the answer, of the commands for each.
func TestCommandsForSeveralNamesAreOneVote(t *testing.T) {
	for _, row := range []struct {
		kind    Kind
		replies string
		want    string
	}{
		{Renew, ":1\r\n", "granted <nil>"},
		{Renew, "*2\r\n:1\r\n:0\r\n", "missing <nil>"},
		{Renew, "*2\r\n:0\r\n:-1\r\n", "other token <nil>"},
		{Renew, "*2\r\n:-1\r\n-OOM no\r\n", "failed OOM no"},
		{Release, "*2\r\n:1\r\n:2\r\n", "woke <nil>"},
		{Release, "*2\r\n:2\r\n:0\r\n", "missing <nil>"},
		{Commit, "*2\r\n*2\r\n:1\r\n:7\r\n*2\r\n:-2\r\n:9\r\n", "overtaken <nil>"},
		{Heal, "*2\r\n:0\r\n:1\r\n", "granted <nil>"},
		{Heal, "*2\r\n:1\r\n-OOM no\r\n", "granted <nil>"},
		{Heal, "*2\r\n:0\r\n:0\r\n", "taken <nil>"},
		{Set, ":1\r\n", "granted <nil>"},
		{Set, "*4\r\n:-502\r\n:0\r\n:2\r\n:1\r\n", "taken <nil>"},
		{Register, "*4\r\n:-1\r\n:0\r\n:1\r\n:0\r\n", "taken <nil>"},
		{Set, "-OOM no\r\n", "failed OOM no"},
	} {
		handle := func(conn int, cmd []string) string {
			if cmd[0] == "EVALSHA" {
				return row.replies
			}
			return ok(conn, cmd)
		}
		run(t, handle, func(t *testing.T, m *Master, server *fake) {
			var got answers
			m.Ask(row.kind, setClaim("a", "b"), &got)
			synctest.Wait()
			if a := got.get(); len(a) != 1 || fmt.Sprint(a[0].Outcome, " ", a[0].Err) != row.want {
				t.Errorf("%v with the replies %q is %v, want %s", row.kind, row.replies, a, row.want)
			}
		})
	}
}

func setClaim(keys ...string) *Claim {
	terms, c := NewSetTerms(keys, time.Hour), &Claim{}
	c.Init(&terms, "T", NoQueue)
	return c
}

func TestAnIllFormedReplyForSeveralNamesEndsTheConnection(t *testing.T) {
	for _, row := range []struct {
		kind  Kind
		reply any
	}{
		{Set, int64(0)},
		{Set, int64(-1)},
		{Set, []any{int64(1), int64(0), int64(0), int64(0)}},
		{Set, []any{int64(1), int64(0)}},
		{Set, []any{int64(-1), int64(0), int64(1)}},
		{Set, []any{int64(-1), int64(0), int64(1), int64(2)}},
		{Set, []any{int64(-1), int64(0), int64(1), int64(-1)}},
		{Set, []any{int64(1), int64(0), int64(1), int64(0)}},
		{Set, []any{int64(-1), int64(0), int64(0), int64(0)}},
		{Set, []any{int64(-1), int64(0), int64(3), int64(0)}},
		{Set, []any{int64(-1), int64(0), int64(-1), int64(0)}},
		{Set, []any{int64(-1), int64(-1), int64(1), int64(0)}},
		{Set, []any{int64(1), int64(5), int64(0), int64(0)}}, // no fence was asked for
		{Set, []any{int64(0), int64(0), int64(1), int64(0)}},
		{Set, []any{"x", int64(0), int64(1), int64(0)}},
		{Renew, int64(0)},
		{Release, int64(2)},
		{Commit, int64(1)},
		{Renew, []any{int64(1)}},
		{Renew, []any{int64(1), int64(1), int64(1)}},
		{Renew, []any{int64(1), "x"}},
		{Release, []any{int64(1), int64(-5)}},
	} {
		it := item{kind: row.kind, claim: setClaim("a", "b")}
		if a, ok := decode(&it, row.reply); ok {
			t.Errorf("%v with the reply %v is %v, want that it is ill-formed", row.kind, row.reply, a)
		}
	}
}

// The keys of a set never change places with other commands on them.
func TestCommandsForSeveralNamesKeepTheirPlace(t *testing.T) {
	rng, pairs := rand.New(rand.NewPCG(1, 1)), 0
	for range 2000 {
		var queue []item
		for i := range 1 + rng.IntN(12) {
			claim := claimOf(string(rune('a' + rng.IntN(4))))
			if rng.IntN(3) == 0 {
				claim = setClaim("a", string(rune('b'+rng.IntN(2))))
			}
			claim.ttl = i
			queue = append(queue, item{kind: []Kind{Set, Again, Register, Renew, Release}[rng.IntN(5)], claim: claim, alone: rng.IntN(8) == 0})
		}
		want := placesByKey(queue)
		var p plan
		sent := p.arrange(queue)
		if got := placesByKey(sent); !reflect.DeepEqual(got, want) {
			t.Fatalf("the commands on each key are sent in the order %v, want %v", got, want)
		}
		for i := 0; i < len(sent); i += max(sent[i].batch, 1) {
			batch := sent[i : i+max(sent[i].batch, 1)]
			if len(batch) == 1 || !slices.ContainsFunc(batch, func(it item) bool { return it.ofSet() }) {
				continue
			}
			if len(batch) != 2 || batch[0].kind != Release || batch[1].kind != Register || batch[0].claim.name != batch[1].claim.name || batch[0].alone || batch[1].alone {
				t.Fatalf("commands for several names share a call: %v", batch)
			}
			pairs++
		}
	}
	if pairs == 0 {
		t.Error("no release and acquisition share a call")
	}
}

func TestAReleaseAndTheNextAcquisitionOfSeveralNamesShareACall(t *testing.T) {
	for _, queued := range []bool{false, true} {
		var calls []string
		handle := func(conn int, cmd []string) string {
			if cmd[0] == "EVALSHA" {
				calls = append(calls, cmd[6])
				if queued && cmd[6] == "follow" {
					return "-ERR a client is in a queue\r\n"
				}
				return ":1\r\n"
			}
			return ok(conn, cmd)
		}
		run(t, handle, func(t *testing.T, m *Master, server *fake) {
			loop := func() {
				var release, next answers
				held, free := setClaim("a", "b"), setClaim("a", "b")
				m.mu.Lock() // all in one flush
				m.outbox.push(item{kind: Release, claim: held, asker: &release})
				m.outbox.push(item{kind: Register, claim: free, asker: &next})
				m.mu.Unlock()
				synctest.Wait()
				for _, a := range []*answers{&release, &next} {
					if got := a.get(); len(got) != 1 || got[0].Outcome != Granted {
						t.Errorf("the answer is %v, want granted once", got)
					}
				}
			}
			loop()
			want := []string{"follow"}
			if queued {
				want = []string{"follow", "release", "behind"}
			}
			if !slices.Equal(calls, want) {
				t.Errorf("with a queue: %v: the calls are %v, want %v", queued, calls, want)
			}
			loop() // a moment later
			if !queued {
				want = append(want, "follow")
			} else {
				want = append(want, "release", "behind")
			}
			if !slices.Equal(calls, want) {
				t.Errorf("with a queue: %v: the calls are %v, want %v", queued, calls, want)
			}
			time.Sleep(2 * apartFor)
			loop()
			if want = append(want, "follow"); !slices.Equal(calls[:len(want)], want) {
				t.Errorf("with a queue: %v: the calls are %v, want %v", queued, calls, want)
			}
		})
	}
}

// placesByKey returns the numbers of the commands on each key, in their order.
func placesByKey(items []item) map[string][]any {
	places := make(map[string][]any)
	for _, it := range items {
		for key := range it.claim.Keys {
			places[key] = append(places[key], it.claim.ttl)
		}
	}
	return places
}

func TestTheScriptForSeveralNamesIsLoadedWhenItIsMissing(t *testing.T) {
	var loaded []string
	handle := func(conn int, cmd []string) string {
		switch {
		case cmd[0] == "SCRIPT":
			loaded = append(loaded, cmd[2])
		case cmd[0] == "EVALSHA" && cmd[1] == setSHA && !slices.Contains(loaded, setScript):
			return "-NOSCRIPT No matching script.\r\n"
		case cmd[0] == "EVALSHA" && cmd[1] == setSHA:
			return ":1\r\n"
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		var got answers
		m.Ask(Set, setClaim("a", "b"), &got)
		synctest.Wait()
		if a := got.get(); len(a) != 1 || a[0].Outcome != Granted {
			t.Errorf("the answer is %v, want that the script was loaded and called again", a)
		}
	})
}

func TestSetsHaveKeysOfTheirOwn(t *testing.T) {
	seen := make(map[string][]string)
	for _, keys := range [][]string{{"a", "b"}, {"a", "b", "c"}, {"ab", "c"}, {"a", "bc"}, {"a1:b", "c"}, {"a", "1:b1:c"}, {"a,b", "c"}} {
		terms := NewSetTerms(keys, time.Second)
		if other, ok := seen[terms.Key()]; ok {
			t.Errorf("the sets %q and %q have one key", keys, other)
		}
		seen[terms.Key()] = keys
	}
}
