package master

import (
	"fmt"
	"github.com/redlock-go/redlock/internal/wire"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A command for several names must have the effect, and the answer, of the commands for each.
func TestCommandsForSeveralNamesAreOneVote(t *testing.T) {
	for _, row := range []struct {
		kind    wire.Kind
		replies string
		want    string
	}{
		{wire.Renew, ":1\r\n", "granted <nil>"},
		{wire.Renew, "*2\r\n:1\r\n:0\r\n", "missing <nil>"},
		{wire.Renew, "*2\r\n:0\r\n:-1\r\n", "other token <nil>"},
		{wire.Renew, "*2\r\n:-1\r\n-OOM no\r\n", "failed OOM no"},
		{wire.Release, "*2\r\n:1\r\n:2\r\n", "passed on <nil>"},
		{wire.Release, "*2\r\n:2\r\n:0\r\n", "missing <nil>"},
		{wire.Commit, "*2\r\n*2\r\n:1\r\n:7\r\n*2\r\n:-2\r\n:9\r\n", "overtaken <nil>"},
		{wire.Heal, "*2\r\n:0\r\n:1\r\n", "granted <nil>"},
		{wire.Heal, "*2\r\n:1\r\n-OOM no\r\n", "granted <nil>"},
		{wire.Heal, "*2\r\n:0\r\n:0\r\n", "taken <nil>"},
		{wire.Set, ":1\r\n", "granted <nil>"},
		{wire.Set, "*4\r\n:-502\r\n:0\r\n:2\r\n:1\r\n", "taken <nil>"},
		{wire.Register, "*4\r\n:-1\r\n:0\r\n:1\r\n:0\r\n", "taken <nil>"},
		{wire.Set, "-OOM no\r\n", "failed OOM no"},
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

func setClaim(keys ...string) *SentClaim { return setClaimBy("T", keys...) }

func setClaimBy(token string, keys ...string) *SentClaim {
	terms := wire.NewSetTerms(keys, time.Hour)
	return NewSentClaim(&terms, wire.ClaimOf{Token: token, Waited: wire.NoQueue})
}

// The keys of a set never change places with other commands on them.
func TestCommandsForSeveralNamesKeepTheirPlace(t *testing.T) {
	rng, pairs := rand.New(rand.NewPCG(1, 1)), 0
	for range 2000 {
		var queue []item
		for i := range 1 + rng.IntN(12) {
			claim := claimBy(strconv.Itoa(i), string(rune('a'+rng.IntN(4))))
			if rng.IntN(3) == 0 {
				claim = setClaimBy(strconv.Itoa(i), "a", string(rune('b'+rng.IntN(2))))
			}
			it := newItem([]wire.Kind{wire.Set, wire.Again, wire.Register, wire.Renew, wire.Release}[rng.IntN(5)], claim, nil)
			it.alone = rng.IntN(8) == 0
			queue = append(queue, it)
		}
		want := placesByKey(queue)
		var p plan
		sent := p.arrange(queue)
		if got := placesByKey(sent); !reflect.DeepEqual(got, want) {
			t.Fatalf("the commands on each key are sent in the order %v, want %v", got, want)
		}
		for i := 0; i < len(sent); i += max(sent[i].batch, 1) {
			batch := sent[i : i+max(sent[i].batch, 1)]
			if len(batch) == 1 || !slices.ContainsFunc(batch, func(it item) bool { return it.OfSet() }) {
				continue
			}
			if len(batch) != 2 || batch[0].Kind != wire.Release || batch[1].Kind != wire.Register || batch[0].claim.Key() != batch[1].claim.Key() || batch[0].alone || batch[1].alone {
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
				m.outbox.push(newItem(wire.Release, held, &release))
				m.outbox.push(newItem(wire.Register, free, &next))
				m.mu.Unlock()
				synctest.Wait()
				for _, a := range []*answers{&release, &next} {
					if got := a.get(); len(got) != 1 || got[0].Outcome != wire.Granted {
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

// placesByKey returns the tokens of the commands on each key, in their order.
func placesByKey(items []item) map[string][]string {
	places := make(map[string][]string)
	for _, it := range items {
		for key := range it.claim.Keys {
			places[key] = append(places[key], it.claim.Token())
		}
	}
	return places
}

func TestTheScriptForSeveralNamesIsLoadedWhenItIsMissing(t *testing.T) {
	loaded := make(map[string]bool) // by hash
	handle := func(conn int, cmd []string) string {
		switch {
		case cmd[0] == "SCRIPT":
			loaded[redis.NewScript(0, cmd[2]).Hash()] = true
		case cmd[0] == "EVALSHA" && !loaded[cmd[1]]:
			return "-NOSCRIPT No matching script.\r\n"
		case cmd[0] == "EVALSHA":
			return ":1\r\n"
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		var got answers
		m.Ask(wire.Set, setClaim("a", "b"), &got)
		synctest.Wait()
		if a := got.get(); len(a) != 1 || a[0].Outcome != wire.Granted {
			t.Errorf("the answer is %v, want that the script was loaded and called again", a)
		}
		clear(loaded)
		var shared [2]answers // of a release and the next acquisition, which share a call of that script
		m.mu.Lock()
		m.outbox.push(newItem(wire.Release, setClaim("a", "b"), &shared[0]))
		m.outbox.push(newItem(wire.Register, setClaim("a", "b"), &shared[1]))
		m.mu.Unlock()
		synctest.Wait()
		for i := range shared {
			if a := shared[i].get(); len(a) != 1 || a[0].Outcome != wire.Granted {
				t.Errorf("the answer to command %d of a call is %v, want that the script was loaded and called again", i, a)
			}
		}
	})
}
