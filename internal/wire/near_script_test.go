package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// unhear has these clients be unheard: they have not polled lately, and need not have, since they were far.
func (s *queueScene) unhear(clients ...string) {
	s.Helper()
	for _, client := range clients {
		s.must("SET", "redlock:waiter:"+client, "1000 99999999999999")
	}
}

// Whatever takes members out of the first three of a queue tells the clients that become near.
func TestWhoBecomesNearIsTold(t *testing.T) {
	of := func(members ...string) []string { return members }
	const v, w, x, y, z = "v V 60000", "w W 60000", "x X 60000", "y Y 60000", "z Z 60000"
	for _, c := range []struct {
		name            string
		key             string
		queue           []string
		silent, unheard []string
		client, word    string
		want            any
		holds           string
		left            []string
		nears           []string
	}{
		{"a release grants the first of two", "A", of(w, x), nil, nil, "a", "release 0", 2, "W", of(x), nil},
		{"a release grants the first of three", "A", of(w, x, y), nil, nil, "a", "release 0", 2, "W", of(x, y), nil},
		{"a release grants the first of four", "A", of(w, x, y, z), nil, nil, "a", "release 0", 2, "W", of(x, y, z), of("z")},
		{"a release grants the first of five", "A", of(v, w, x, y, z), nil, nil, "a", "release 0", 2, "V", of(w, x, y, z), of("y")},
		{"a release grants one that is far", "A", of(w, x), nil, of("w"), "a", "release 0", 2, "W", of(x), nil},
		{"a release removes two that have ended", "A", of("gone G 60000", "gone2 G2 60000", v, w, x, y, z), nil, nil, "a", "release 0", 2, "V", of(w, x, y, z), of("w", "x", "y")},
		{"an undo removes two that have ended, and finds none that is live", "A", of("gone G 60000", "gone2 G2 60000", v, w, x), of("v", "w", "x"), nil, "a", "undo", 2, "", of(v, w, x), of("v", "w", "w", "x", "x")},
		{"a registration removes two that have ended", "", of("gone G 60000", "gone2 G2 60000", w, x, y), nil, nil, "c", "register 60000 0 60000", four{-1, 0, "", 1}, "", of(w, x, y, "c C 60000"), of("x", "y")},
		{"a release grants the first, and leaves the queue itself", "A", of(v, "a A 60000", w, x, y), nil, nil, "a", "release 60000 - 0", 2, "V", of(w, x, y), of("x", "y")},
		{"an open release leaves the queue itself", "A", of(w, "a A 60000", x, y), nil, nil, "a", "release 60000 open 0", 2, "", of(w, x, y), of("y")},
		{"a release to a token", "A", of(v, w, x, "y LONG-TOKEN 60000", z), nil, nil, "a", "release 0 =LONG-TOKEN", 2, "LONG-TOKEN", of(v, w, x, z), of("x")},
		{"an open release leaves the head", "A", of(w, x, y, z), nil, nil, "a", "release 0 open", 2, "", of(w, x, y, z), nil},
		{"a poll grants one without a subscription", "", of("d D 60000p", w, x, y), nil, nil, "w", "again 400 0 60000", four{below, 0, "D", 0}, "D", of(w, x, y), of("y")},
		{"a claim leaves under both its names", "A", of(v, "c C 400", "c C 400p", w, x, y), nil, nil, "c", "release 400", -1, "A", of(v, w, x, y), of("w", "x")},
		{"a poll gets the lock, and leaves under both its names", "", of("c C 60000p", "c C 60000", w, x, y, z), nil, nil, "c", "again 60000 1000- 60000", 1, "C", of(w, x, y, z), of("x", "y")},
		{"a claim leaves", "A", of(v, "c C 400", w, x, y), nil, nil, "c", "release 400", -1, "A", of(v, w, x, y), of("x")},
		{"a claim leaves that was not there", "A", of(v, w, x, y), nil, nil, "c", "release 400", -1, "A", of(v, w, x, y), nil},
		{"a poll gets the lock", "", of("c C 60000", w, x, y, z), nil, nil, "c", "again 60000 0 60000", 1, "C", of(w, x, y, z), of("y")},
		{"a poll passes the lock on", "", of(w, x, "c C 60000", y), nil, nil, "c", "again 60000 0 60000", four{below, 0, "W", 0}, "W", of(x, "c C 60000", y), of("y")},

		// Those that are silent, or may be, are passed over.
		{"a release finds one silent", "A", of(v, w, x, y, z), of("v"), nil, "a", "release 0", 2, "W", of(x, y, z, v), of("v", "y", "z")},
		{"a release finds one silent, and one that may be", "A", of(v, w, x, y, z), of("v"), of("w"), "a", "release 0", 2, "X", of(y, z, v, w), of("v", "w", "y", "z", "v")},
		{"a release finds none that is live", "A", of(v, w, x, y), of("v"), of("w", "x", "y"), "a", "release 0", 2, "", of(v, w, x, y), of("v", "w", "x", "y")},
		{"a poll finds some that may be silent", "", of(v, w, "c C 60000", x), nil, of("v", "w"), "c", "again 60000 0 60000", four{held, 0, "", 0}, "C", of(x, v, w), of("v", "v", "w", "w", "x")},
		{"a newcomer waits for those that are far", "", of(v, w), nil, of("v", "w"), "c", "register 60000 0 60000", four{-1, 0, "", 1}, "", of(v, w, "c C 60000"), nil},
		{"a newcomer waits for those that are far, behind one that is silent", "", of(v, w), of("v"), of("w"), "c", "register 60000 0 60000", four{-1, 0, "", 1}, "", of(v, w, "c C 60000"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, dial func() redis.Conn) {
				s := newQueueScene(t, dial, "c", "v", "w", "x", "y", "z", "o")
				s.reset(c.queue...)
				s.silence(c.silent...)
				s.unhear(c.unheard...)
				if c.key != "" {
					s.must("SET", "k", c.key, "PX", 60_000)
				}
				s.as(c.client, c.word, c.want)
				s.holds(c.holds)
				s.queue(c.left...)
				for client := range s.inbox {
					s.must("PUBLISH", WakeChannel+client, "the last")
					for got := ""; got != "the last"; {
						got = s.inbox[client]()
						if token, key, ok := IsNear.Parse(got); ok && token == strings.ToUpper(client) && key == "k" {
							s.nears = append(s.nears, client)
						} else if ok {
							s.Errorf("%s is told %q", client, got)
						}
					}
				}
				want := slices.Sorted(slices.Values(c.nears))
				if slices.Sort(s.nears); !slices.Equal(s.nears, want) {
					s.Errorf("near are told to be %q, want %q", s.nears, want)
				}
			})
		})
	}
}

// A poll takes a client back to its place that was set aside. It keeps its place until the next release.
func TestAClientThatWasSetAsideComesBackToItsPlace(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		const v, w, x, y = "v V 60000", "w W 60000", "x X 60000", "y Y 60000"
		s := newQueueScene(t, dial, "v", "w", "x", "y")
		s.reset(v, w, x, y)
		s.silence("v", "w")
		s.must("SET", "k", "A", "PX", 60_000)
		s.as("a", "release 0", 2)
		s.holds("X")
		s.queue(y, v, w)
		s.as("w", "again 60000 0 60000", four{below, 0, "X", 0})
		s.queue(w, y, v)
		s.as("v", "again 60000 0 60000", four{below, 0, "X", 0})
		s.queue(v, w, y)
		s.as("v", "again 60000 0 60000", four{below, 0, "X", 0})
		s.queue(v, w, y)

		// Twice set aside is not further behind.
		s.silence("v", "w")
		s.as("x", "release 0", 2)
		s.holds("Y")
		s.reset("v V 60000", "w W 60000")
		s.must("ZADD", "redlock:queue:k", "4000000000000001", v, "4000000000000002", w)
		s.silence("v")
		s.must("SET", "k", "A", "PX", 60_000)
		s.as("a", "release 0", 2)
		s.holds("W")
		s.as("v", "again 60000 0 60000", four{below, 0, "W", 0})
		if got := fmt.Sprintf("%s", s.must("ZSCORE", "redlock:queue:k", v)); got != "1" {
			s.Errorf("the score is %s, want 1", got)
		}
	})
}

// The answers to a registration and a poll say how many are ahead.
func TestAnAnswerSaysThePlaceInTheQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial)
		s.reset()
		s.must("SET", "k", "A", "PX", 60_000)
		ahead := func(client, word string, want int64) {
			t.Helper()
			list, err := redis.Values(s.conn.Do("EVALSHA", batchLua.sha(), 1, "k", client, word, tokenOf(client)))
			if err != nil || len(list) != 5 || list[4] != want || (list[0] == int64(-1)) != (want >= Near) {
				t.Errorf("%s: %s: answered %v (%v), want the place %d", client, word, list, err, want)
			}
		}
		for i := range 6 {
			ahead(fmt.Sprint("w", i), "register 60000 0 400", int64(i))
		}
		for i := range 6 {
			ahead(fmt.Sprint("w", i), "again 400 0 400", int64(i))
		}
		ahead("first", "register 60000 5000 400", 0)
		ahead("w0", "again 400 0 400", 1)
		ahead("c", "register 60000 - 400", 0) // it joins no queue
	})
}
