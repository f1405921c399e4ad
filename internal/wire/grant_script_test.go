package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

func TestRegisterSetsAFreeKeyUnlessOthersQueue(t *testing.T) {
	none, of := []string(nil), func(members ...string) []string { return members }
	for _, c := range []call{
		{"a free key", "", none, "register 60000 0 400", 1, "C", none, nil},
		{"a free key, and it does not wait", "", none, "register 60000 - 0", 1, "C", none, nil},
		{"a free key, with a fence", "", none, "register 60000 0 400f 5", four{1, 5, "", 0}, "C", none, nil},
		{"a free key, with a fence, and it does not wait", "", none, "register 60000 - 0 5", []any{int64(1), int64(5)}, "C", none, nil},
		{"it is the head", "", of("c C 400", "w W 400"), "register 60000 0 400", 1, "C", of("w W 400"), nil},
		{"another claim is the head", "", of("w W 400"), "register 60000 0 400", four{-1, 0, "", 1}, "", of("w W 400", "c C 400"), nil},
		{"a claim without a subscription is the head", "", of("d D 400p"), "register 60000 0 400", four{-1, 0, "", 1}, "", of("d D 400p", "c C 400"), nil},
		{"a client that has ended is the head", "", of("gone G 400"), "register 60000 0 400", 1, "C", none, nil},
		{"the clients in front have ended, another one has not", "", of("gone G 400", "gone2 G2 400", "w W 400"), "register 60000 0 400", four{-1, 0, "", 1}, "", of("w W 400", "c C 400"), nil},
		{"an earlier claim of its own is the head", "", of("c OLD 400"), "register 60000 0 400", four{-1, 0, "", 1}, "", of("c OLD 400", "c C 400"), nil},
		{"it is in the queue, and keeps its place", "", of("w W 400", "c C 400", "x X 400"), "register 60000 0 400", four{-1, 0, "", 0}, "", of("w W 400", "c C 400", "x X 400"), nil},
		{"a ttl of 0", "", none, "register 0 0 400", four{-1, 0, "", 1}, "", of("c C 400"), nil},
		{"a ttl of 0 at the head", "", of("c C 400"), "register 0 0 400", four{-1, 0, "", 0}, "", of("c C 400"), nil},
		{"it is behind those that join until its time has come", "X", none, "register 60000 -60000 400", four{below, 0, "X", 1}, "X", of("c C 400"), nil},
		{"it does not wait", "", of("w W 400"), "register 60000 - 0", -1, "", of("w W 400"), nil},
		{"it does not wait, and has a number of ms all the same", "", of("w W 400"), "register 60000 5000 0", -1, "", of("w W 400"), nil},
		{"it will not wait", "", of("w W 400"), "register 60000 -- 0", 1, "C", of("w W 400"), nil},
		{"it will not wait, and a claim without a subscription is the head", "", of("d D 400p"), "register 60000 -- 0", 1, "C", of("d D 400p"), nil},
		{"it has a g, and does not join", "", of("w W 400"), "register 60000 - 400", four{-1, 0, "", 0}, "", of("w W 400"), nil},
		{"the key is held, and it does not wait", "X", none, "register 60000 - 0", below, "X", none, nil},
		{"the key is held", "X", none, "register 60000 0 400", four{below, 0, "X", 1}, "X", of("c C 400"), nil},
		{"the key is held, and it is in the queue", "X", of("c C 400"), "register 60000 0 400", four{below, 0, "X", 0}, "X", of("c C 400"), nil},
		{"the key is held by a long token", strings.Repeat("x", 300), none, "register 60000 - 400", four{below, 0, strings.Repeat("x", 256), 0}, strings.Repeat("x", 300), none, nil},
		{"the key is its own, and it does not wait", "C", of("w W 400"), "register 60000 - 0", 1, "C", of("w W 400"), nil},
		{"the key is its own", "C", of("w W 400"), "register 60000 0 400", four{held, 0, "", 0}, "C", of("w W 400"), nil},
	} {
		t.Run(c.name, func(t *testing.T) { onBoth(t, c.by("c", "c", "w")) })
	}
}

func TestAgainPassesAFreeKeyOnToTheHeadOfTheQueue(t *testing.T) {
	none, of := []string(nil), func(members ...string) []string { return members }
	for _, c := range []call{
		{"nobody queues, and it does not wait", "", none, "again 60000 - 0", 1, "C", none, nil},
		{"nobody queues, and it has lost its place", "", none, "again 60000 0 400", four{1, 0, "", 1}, "C", none, nil},
		{"it is the head", "", of("c C 400", "w W 400"), "again 60000 0 400", 1, "C", of("w W 400"), nil},
		{"another claim is the head", "", of("w W 60000", "c C 400"), "again 60000 0 400", four{below, 0, "W", 0}, "W", of("c C 400"), of("w", "+ W $run -2 0 k")},
		{"another claim is the head, and it has lost its place", "", of("w W 60000"), "again 60000 0 400", four{below, 0, "W", 1}, "W", of("c C 400"), of("w", "+ W $run -2 0 k")},
		{"another claim is the head, and it does not join", "", of("w W 60000"), "again 60000 - 400", four{below, 0, "W", 0}, "W", none, of("w", "+ W $run -2 0 k")},
		{"another claim is the head, and it does not wait", "", of("w W 60000"), "again 60000 - 0", below, "W", none, of("w", "+ W $run -2 0 k")},
		{"a claim without a subscription is the head", "", of("d D 60000p", "c C 400"), "again 60000 0 400", four{below, 0, "D", 0}, "D", of("c C 400"), nil},
		{"those in front have ended", "", of("gone G 400", "gone2 G2 400", "c C 60000"), "again 60000 0 60000", four{held, 0, "", 0}, "C", none, of("c", "+ C $run -2 0 k")},
		{"those in front have ended, and it has lost its place", "", of("gone G 400"), "again 60000 0 60000", four{held, 0, "", 1}, "C", none, of("c", "+ C $run -2 0 k")},
		{"it keeps its place", "", of("w W 60000", "c C 400", "x X 400"), "again 60000 0 400", four{below, 0, "W", 0}, "W", of("c C 400", "x X 400"), of("w", "+ W $run -2 0 k")},
		{"a ttl of 0", "", of("w W 60000", "c C 400"), "again 0 0 400", four{-1, 0, "", 0}, "", of("w W 60000", "c C 400"), nil},
		{"the key is held", "X", of("c C 400", "w W 400"), "again 60000 0 400", four{below, 0, "X", 0}, "X", of("c C 400", "w W 400"), nil},
	} {
		t.Run(c.name, func(t *testing.T) { onBoth(t, c.by("c", "c", "w")) })
	}
}

// A key that was granted expires. Otherwise two clients that have a minority each would keep it from all others.
func TestPollsDoNotExtendAKeyThatWasGranted(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial)
		for _, word := range []string{"again 100000 0 100000", "register 100000 0 100000", "again 100000 0 100000f 5", "register 100000 - 0", "again 100000 - 0"} {
			s.reset()
			s.must("SET", "k", "C", "PX", 60_000)
			s.must("SET", "redlock:fence:k", 5)
			s.conn.Do("EVALSHA", batchLua.sha(), 1, "k", "c", word, "C")
			s.key("C", 40*time.Second, 60*time.Second)
		}
	})
}
