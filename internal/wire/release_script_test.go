package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

func TestAReleasePassesTheLockOn(t *testing.T) {
	none, of := []string(nil), func(members ...string) []string { return members }
	const w, x = "w W 60000", "x X 60000"
	for _, c := range []call{
		{"nobody queues", "A", none, "release 0", 1, "", none, nil},
		{"to the head", "A", of(w, x), "release 0", 2, "W", of(x), of("w", "+ W $run -2 0 k")},
		{"to the head, by name", "A", of(w, x), "release 0 -", 2, "W", of(x), of("w", "+ W $run -2 0 k")},
		{"with the shortest word", "A", of(w, x), "release", 2, "W", of(x), of("w", "+ W $run -2 0 k")},
		{"its own member goes", "A", of("a A 60000", w), "release 60000 - 0", 2, "W", none, of("w", "+ W $run -2 0 k")},
		{"an earlier claim of its own, which has ended, is skipped", "A", of("a OTHER 60000", w), "release 60000", 2, "W", none, of("w", "+ W $run -2 0 k")},
		{"those that have ended are skipped", "A", of("gone G 60000", "gone2 G2 60000", w), "release 0", 2, "W", none, of("w", "+ W $run -2 0 k")},
		{"all have ended", "A", of("gone G 60000", "gone2 G2 60000"), "release 0", 1, "", none, nil},
		{"unreadable members are skipped", "A", of("", "v", "p", "w W", "w W 60000 ", "w  W 60000", "w W 6e4", "w W 60000ff", "w W 60000pp", "w W 60000pf", "w W p", "w W -1", "\xff\x00 W", w), "release 0", 2, "W", none, of("w", "+ W $run -2 0 k")},
		{"a g of 0 cannot be granted", "A", of("w W 0", x), "release 0", 2, "", of(x), of("w", "A k")},
		{"a g that is no time cannot be granted", "A", of("w W 99999999999999999999", x), "release 0", 2, "", of(x), of("w", "A k")},
		{"to a claim without a subscription", "A", of("d D 60000p", w), "release 0", 2, "", of("d D 60000p", w), nil},
		{"to a claim without a subscription, by one that waited", "A", of("d D 60000p", w), "release 400", 2, "", of("d D 60000p", w), nil},
		{"the key is another's", "Z", of("a A 60000", w), "release 60000", -1, "Z", of(w), nil},
		{"the key is another's, and it had no subscription", "Z", of("a A 60000p", w), "release 60000", -1, "Z", of(w), nil},
		{"the key is another's, and it had no subscription at first", "Z", of("a A 60000", w, "a A 60000p"), "release 60000", -1, "Z", of(w), nil},
		{"there is no key", "", of("a A 60000", w), "release 60000", 0, "W", none, of("w", "+ W $run -2 0 k")},
		{"there is no key, and nobody queues", "", of("a A 60000"), "release 60000", 0, "", none, nil},

		{"open", "A", of(w, x), "release 0 open 0", 2, "", of(w, x), of("w", "A k")},
		{"open, and the first has ended", "A", of("gone G 60000", w), "release 0 open", 2, "", of(w), of("w", "A k")},
		{"open, and the first has no subscription", "A", of("d D 60000p", w), "release 0 open", 2, "", of("d D 60000p", w), nil},
		{"open, by one that waited, and the first has no subscription", "A", of("d D 60000p", w), "release 400 open 0", 2, "", of("d D 60000p", w), nil},
		{"open, and there is no key", "", of(w), "release 0 open", 0, "", of(w), of("w", "A k")},
		{"free", "A", of("a A 60000", w), "release 60000 free 0", 1, "", of(w), nil},
		{"free, and there is no key", "", of(w), "release 0 free", 0, "", of(w), nil},
		{"to a token", "A", of(w, "o O 400", "x LONG-TOKEN 60000"), "release 60000 =LONG-TOKEN 0", 2, "LONG-TOKEN", of(w, "o O 400"), of("x", "+ LONG-TOKEN $run -2 0 k")},
		{"to the beginning of a token", "A", of(w, "x LONG-TOKEN 60000"), "release 60000 =LONG-", 2, "LONG-TOKEN", of(w), of("x", "+ LONG-TOKEN $run -2 0 k")},
		{"to a token whose client has no subscription", "A", of(w, "d LONG-TOKEN 60000p"), "release 60000 =LONG-TOKEN", 2, "LONG-TOKEN", of(w), nil},
		{"to the next holder, whose client has no subscription", "A", of(w, "d LONG-TOKEN 60000p"), "release 60000 +LONG-TOKEN", 2, "", of(w, "d LONG-TOKEN 60000p"), nil},
		{"to a token that is not there", "A", of(w, x), "release 60000 =LONG-TOKEN", 2, "W", of(x), of("w", "+ W $run -2 0 k")},
		{"to a token whose client has ended", "A", of(w, "gone LONG-TOKEN 60000", x), "release 60000 =LONG-TOKEN", 2, "W", of(x), of("w", "+ W $run -2 0 k")},

		{"undo: nobody queues", "A", none, "undo", 1, "", none, nil},
		{"undo: to the head", "A", of(w, x), "undo", 2, "W", of(x), of("w", "+ W $run -2 0 k")},
		{"undo: the first has ended", "A", of("gone G 60000", w), "undo", 2, "W", none, of("w", "+ W $run -2 0 k")},
		{"undo: the head has no subscription", "A", of("d D 60000p", w), "undo", 2, "", of("d D 60000p", w), nil},
		{"undo: it stays in the queue", "A", of(w, "a A 60000", "a A 60000p"), "undo", 2, "W", of("a A 60000", "a A 60000p"), of("w", "+ W $run -2 0 k")},
		{"undo: there is no key", "", of(w), "undo", 0, "", of(w), nil},
		{"undo: the key is another's", "Z", of(w), "undo", -1, "Z", of(w), nil},

		{"the key is free: to the head", "", of(w, x), "release", 0, "W", of(x), of("w", "+ W $run -2 0 k")},
		{"the key is free: to a claim without a subscription", "", of("d D 60000p", w), "release", 0, "", of("d D 60000p", w), nil},
		{"the key is free: nobody queues", "", none, "release", 0, "", none, nil},
	} {
		t.Run(c.name, func(t *testing.T) { onBoth(t, c.by("a", "w", "x", "o")) })
	}
}

// A claim that was granted at other masters may still be in the queue of this one, and be the head.
func TestAReleaseDoesNotGrantItsOwnClaim(t *testing.T) {
	const mine, deaf, w = "a A 60000", "a A 60000p", "w W 60000" // deaf is from when it had no subscription
	for _, queue := range [][]string{{mine, w}, {deaf, w}, {w, deaf}, {w, mine}} {
		for _, word := range []string{"release 60000", "release 60000 - 0", "release 60000 open 0", "release 60000 +A 0"} {
			c := call{word, "A", queue, word, 2, "W", nil, []string{"w", "+ W $run -2 0 k"}}
			if strings.Contains(word, "open") {
				c.holds, c.left, c.told[1] = "", []string{w}, "A k"
			}
			t.Run(fmt.Sprint(word, queue), func(t *testing.T) { onBoth(t, c.by("a", "a", "w")) })
		}
	}
}

// A grant lasts for the g of the client that is granted the lock, whatever the TTL of the others.
func TestAGrantLastsForTheTimeThatItsClientAskedFor(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		s.reset()
		s.must("SET", "redlock:incarnation", "a record", "PX", 200_000)
		s.as("a", "register 100000 - 0", 1)
		s.as("w", "register 100000 0 60000", four{below, 0, "A", 1})
		s.as("a", "release 0 - 0", 2)
		s.key("W", 50*time.Second, 60*time.Second)
		g, ok := ParseGrant(s.inbox["w"]())
		if want := (Grant{Key: "k", Token: "W", Memory: Memory{s.run, g.Left}}); !ok || g != want || g.Left <= 190_000 || g.Left > 200_000 {
			t.Errorf("the message says %+v (%v), want %+v, and what is left of the record", g, ok, want)
		}
		s.as("w", "again 60000 0 60000", four{held, 0, "", 0})
		s.as("w", "renew 100000", 1)
		s.key("W", 90*time.Second, 100*time.Second)
		s.as("w", "release 60000 - 0", 1)
		s.holds("")
	})
}
