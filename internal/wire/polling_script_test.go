package wire

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A client polls if it has no wake-ups at all, and then it has no id, or if it has no subscription on this server.
func TestAClientThatPollsWaitsInTheQueueAfterASecond(t *testing.T) {
	none, of := []string(nil), func(members ...string) []string { return members }
	for _, client := range []string{"", "c"} {
		mine, w := tokenOf(client), "w W 60000"
		toW := of("w", "+ W $run -2 0 k")
		for _, c := range []call{
			{"a free key", "", none, "register 60000 0- 0", 1, mine, none, nil},
			{"another client is the head", "", of(w), "register 60000 0- 0", -1, "", of(w), nil},
			{"another client is the head, after a second", "", of(w), "register 60000 1000- 0", -1, "", of(w, "polling"), nil},
			{"the key is held", "X", of(w), "again 60000 999- 0", below, "X", of(w), nil},
			{"the key is held, after a second", "X", of(w), "again 60000 1000- 0", below, "X", of(w, "polling"), nil},
			{"the key is held, to be granted, after a second", "X", none, "again 60000 1000- 60000", four{below, 0, "X", 0}, "X", of("polling"), nil},
			{"it finds the key free", "", of(w), "again 60000 999- 0", below, "W", none, toW},
			{"it finds the key free, after a second", "", of(w), "again 60000 1000- 0", below, "W", of("polling"), toW},
			{"it finds the key free, and those in front have ended", "", of("gone G 400"), "again 60000 1000- 0", -1, "", of("woken"), nil},
			{"it is the head", "", of("polling", w), "again 60000 1000- 0", 1, mine, of(w), nil},
			{"it is the head, to be granted", "", of("polling", w), "again 60000 1000- 60000", four{1, 0, "", 1}, mine, of(w), nil},
			{"a free key, to be granted", "", none, "again 60000 999- 60000", four{1, 0, "", 1}, mine, none, nil},
			{"another client that polls is the head", "", of("polling", w), "again 60000 999- 0", -1, "", of("woken", w), nil},
			{"it does not wait", "X", none, "register 60000 - 0", below, "X", none, nil},

			{"its release passes the lock on", mine, of(w), "release", 2, "W", none, toW},
			{"its release passes the lock on, whoever was woken", mine, of(w, "woken"), "release 0 - 0", 2, "W", none, toW},
			{"its release passes the lock on to one that polls", mine, of("polling", w), "release", 2, "", of("woken", w), nil},
			{"its undo passes the lock on", mine, of(w), "undo", 2, "W", none, toW},
			{"it gives up", "X", of("polling", w), "quit", -1, "X", of(w), nil},
			{"it gives up, and was woken", "", of("polling", w), "quit", 0, "W", none, toW},
		} {
			if client == "" { // it has no queue to say no to
				c.word = regexp.MustCompile(`(\d)- `).ReplaceAllString(c.word, "$1 ")
			}
			t.Run(c.name+" "+client, func(t *testing.T) { onBoth(t, c.by(client, "c", "w")) })
		}
	}
}

// A release reserves the lock for the clients that poll. The turn of the one that takes it ends with its release.
func TestALockThatWasReservedForPollsIsPassedOnAfterwards(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		for _, client := range []string{"", "c"} {
			for _, take := range []string{"again 60000 1000- 0", "again 60000 1000- 60000", "acquire 60000 - - 5"} {
				s := newQueueScene(t, dial, "w")
				s.reset("polling", "w W 60000")
				s.must("SET", "k", "A", "PX", 60_000)
				call := func(client, word, token string, want any) {
					s.ask(func(got any) { s.answered(client, word, got, want) }, "EVALSHA", batchLua.sha, 1, "k", client, word, token)
				}
				taken, release := any(1), "release"
				if strings.HasPrefix(take, "acquire") {
					taken = []any{int64(1), int64(5)}
				} else if strings.HasSuffix(take, " 60000") {
					taken, release = four{1, 0, "", 1}, "release 60000"
				}
				s.together(func() { // the reservation ends by itself
					call("a", "release 0 - 0", "A", 2)
					call("w", "again 60000 0 60000", "W", four{-1, 0, "", 0})
					call("x", "register 60000 0 0", "X", -1)
					call(client, take, "C", taken)
					call(client, release, "C", 2)
				})
				s.holds("W")
				s.queue("x")
			}
		}
	})
}

// A client that polls has a place in the queue by how long it has waited, as others do.
func TestAClientThatPollsGoesAheadOfThoseThatHaveWaitedForLess(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		for _, row := range []struct {
			waited, holds string
			want          any
			left          []string
		}{
			{"5000-", "C", 1, []string{"w W 60000"}},
			{"1000-", "W", below, []string{"polling"}},
		} {
			s.reset()
			now, err := redis.Int64s(s.must("TIME"), nil)
			if err != nil {
				t.Fatal(err)
			}
			s.must("ZADD", "redlock:queue:k", now[0]*1_000_000+now[1]-3_000_000, "w W 60000") // since 3 s
			s.must("SET", "redlock:waiter:w", "99999999999999 20 0")
			s.as("c", "again 60000 "+row.waited+" 0", row.want)
			s.holds(row.holds)
			s.queue(row.left...)
		}
	})
}

// An open release leaves the lock to those who do not queue. Another goroutine of its client may be one of them.
func TestAClientThatPollsTakesTheLockThatItsOwnCallLeavesOpenIfItHasWaitedLongest(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		for _, row := range []struct {
			word, holds string
			want        any
			left        []string
		}{
			{"register 60000 5000- 400", "B", int64(1), []string{"w W 60000"}},
			{"register 60000 5000- 0", "B", int64(1), []string{"w W 60000"}},
			{"register 60000 1000- 0", "", int64(-1), []string{"w W 60000", "polling"}},
			{"register 60000 999- 0", "", int64(-1), []string{"w W 60000"}},
			{"register 60000 5000 0", "", int64(-1), []string{"a", "w W 60000"}},
		} {
			s.reset()
			now, err := redis.Int64s(s.must("TIME"), nil)
			if err != nil {
				t.Fatal(err)
			}
			s.must("ZADD", "redlock:queue:k", now[0]*1_000_000+now[1]-3_000_000, "w W 60000") // since 3 s
			s.must("SET", "k", "A", "PX", 60_000)
			got, err := redis.Values(s.must("EVALSHA", batchLua.sha, 2, "k", "k", "a", "release 400 open 0", "A", row.word, "B"), nil)
			if err != nil || len(got) != 2 || got[0] != int64(2) || got[1] != row.want {
				t.Errorf("%s: answered %v, %v, want 2 and %v", row.word, got, err, row.want)
			}
			s.holds(row.holds)
			s.queue(row.left...)
		}
	})
}
