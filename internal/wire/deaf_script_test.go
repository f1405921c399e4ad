package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// waits puts a claim into the queue that has waited for some time.
func (s *queueScene) waits(member string, d time.Duration) {
	s.Helper()
	now, err := redis.Int64s(s.must("TIME"), nil)
	if err != nil {
		s.Fatal(err)
	}
	s.must("ZADD", "redlock:queue:k", now[0]*1_000_000+now[1]-d.Microseconds(), member)
	client, _, _ := strings.Cut(member, " ")
	s.must("SET", "redlock:waiter:"+client, "99999999999999 0")
}

// A client without a subscription cannot be told of a grant. It often has the lock before it would be its turn. So its claim queues only if it
// has waited for a second. What a release does for such a claim is in TestAReleasePassesTheLockOn.
func TestAClaimWithoutASubscriptionJoinsTheQueueAfterASecond(t *testing.T) {
	none, of := []string(nil), func(members ...string) []string { return members }
	const w, mine = "w W 60000", "c C 400p"
	toW := of("w", "+ W $run -2 0 k")
	for _, c := range []call{
		{"a free key", "", none, "register 60000 0- 400", 1, "C", none, nil},
		{"a free key, after a second", "", none, "again 400 1000- 400", four{1, 0, "", 1}, "C", none, nil},
		{"another claim is the head", "", of(w), "register 60000 0- 400", four{-1, 0, "", 0}, "", of(w), nil},
		{"another claim is the head, after a second", "", of(w), "register 60000 1000- 400", four{-1, 0, "", 1}, "", of(w, mine), nil},
		{"the key is held", "X", of(w), "again 400 999- 400", four{below, 0, "X", 0}, "X", of(w), nil},
		{"the key is held, after a second", "X", of(w), "again 400 1000- 400", four{below, 0, "X", 1}, "X", of(w, mine), nil},
		{"the key is held, with a fence", "X", none, "again 400 1000- 400f 5", four{below, 0, "X", 1}, "X", of("c C 400fp"), nil},
		{"the key is held, and it is in the queue", "X", of(w, mine), "again 400 1100- 400", four{below, 0, "X", 0}, "X", of(w, mine), nil},
		{"it finds the key free", "", of(w), "again 400 999- 400", four{below, 0, "W", 0}, "W", none, toW},
		{"it finds the key free, after a second", "", of(w), "again 400 1000- 400", four{below, 0, "W", 1}, "W", of(mine), toW},
		{"it finds the key free, and those in front have ended", "", of("gone G 400"), "again 400 1000- 400", four{held, 0, "", 1}, "C", none, nil},
		{"it finds the key free, is in the queue, and those in front have ended", "", of("gone G 400", mine), "again 400 1100- 400", four{held, 0, "", 0}, "C", none, nil},
		{"it finds the key free, and another one without a subscription is the head", "", of("d D 400p", w), "again 400 999- 400", four{-1, 0, "", 0}, "", of("d D 400p", w), nil},
		{"it is the head", "", of(mine, w), "again 400 1100- 400", 1, "C", of(w), nil},
		{"it is the head, with a fence", "", of("c C 400fp", w), "again 400 1100- 400f 5", four{1, 5, "", 0}, "C", of(w), nil},
		{"it was granted the lock", "C", of(w), "again 400 1100- 400", four{held, 0, "", 0}, "C", of(w), nil},
		{"a ttl of 0", "", of(mine, w), "again 0 1100- 400", four{-1, 0, "", 0}, "", of(mine, w), nil},
		{"it does not wait", "X", none, "register 60000 - 0", below, "X", none, nil},
		{"it has no g, and so no claim", "", of(w), "register 60000 5000- 0", -1, "", of(w), nil},

		{"its release passes the lock on", "C", of(w), "release 400", 2, "W", none, toW},
		{"a release finds another one without a subscription", "C", of("d D 400p", w), "release 400", 2, "", of("d D 400p", w), nil},
		{"a release without a g finds one", "C", of("d D 400p", w), "release 0 - 0", 2, "", of("d D 400p", w), nil},
		{"an undo finds one", "C", of("d D 400p", w), "undo", 2, "", of("d D 400p", w), nil},
		{"it gives up", "X", of(mine, w), "release 400", -1, "X", of(w), nil},
		{"it gives up, and the key is free", "", of(mine, w), "release 400", 0, "W", none, toW},
		{"its undo leaves it in the queue", "X", of(mine, w), "undo", -1, "X", of(mine, w), nil},
	} {
		t.Run(c.name, func(t *testing.T) { onBoth(t, c.by("c", "w")) })
	}
}

// Nobody can tell its client of a grant. So only who polls, or gives way to it, grants it the lock. Its next poll finds that.
func TestAClaimWithoutASubscriptionIsGrantedTheLockByAPollOfAnother(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		for _, row := range []struct{ holds, client, word string }{
			{"A", "a", "release 400 =C 0"},
			{"", "w", "again 400 0 400"},
		} {
			s.reset("c C 60000fp", "w W 400")
			if row.holds != "" {
				s.must("SET", "k", row.holds, "PX", 60_000)
			}
			s.must("EVALSHA", batchLua.sha(), 1, "k", row.client, row.word, tokenOf(row.client))
			s.key("C", 50*time.Second, 60*time.Second)
			s.queue("w W 400")
			fence, err := redis.Int64(s.must("GET", "redlock:fence:k"), nil)
			if err != nil {
				t.Errorf("%s: the grant has given no fence: %v", row.word, err)
			}
			s.as("c", "again 60000 1100- 60000f 5", four{held, fence, "", 0})
			s.as("c", "release 60000f - 0", 2)
			s.holds("W")
			s.told("w", "+ W "+s.run+" -2 0 k")
			s.nobodyTold()
		}
	})
}

// Of claims without subscriptions, the one that polls first takes a key that a release has left free for them, unless the head has waited for
// more than four times as long.
func TestOfClaimsWithoutSubscriptionsTheFirstThatPollsTakesTheKey(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		for _, row := range []struct {
			word, holds string
			want        any
			left        []string
		}{
			{"again 400 600- 400", "C", four{1, 0, "", 1}, []string{"d D 400p", "w W 400"}},
			{"again 400 400- 400", "", four{-1, 0, "", 0}, []string{"d D 400p", "w W 400"}},
			{"register 400 600- 400", "", four{-1, 0, "", 0}, []string{"d D 400p", "w W 400"}},
			{"again 400 2100- 400", "C", four{1, 0, "", 1}, []string{"d D 400p", "w W 400"}},
		} {
			s.reset()
			s.waits("d D 400p", 2*time.Second)
			s.waits("w W 400", time.Second)
			s.must("SET", "k", "A", "PX", 60_000)
			s.as("a", "release 400 - 0", 2)
			s.holds("")
			s.as("c", row.word, row.want)
			s.holds(row.holds)
			s.queue(row.left...)
			s.nobodyTold()
		}
	})
}

// Nothing is known of the client, which counts as live. If it has ended, a poll grants its claim the lock all the same. This costs its g once.
func TestAClaimWithoutASubscriptionWhoseClientHasEndedCostsItsGOnce(t *testing.T) {
	m := startMiniredis(t)
	s := newQueueScene(t, dialling(t, m.Addr()), "w")
	s.reset("ended E 300p", "w W 60000")
	s.must("SET", "k", "A", "PX", 60_000)
	s.as("a", "release 400 - 0", 2)
	s.holds("")
	s.as("w", "again 60000 0 60000", four{below, 0, "E", 0})
	s.holds("E")
	s.lives("k", 300*time.Millisecond, 300*time.Millisecond)
	s.queue("w W 60000")
	s.as("w", "again 60000 0 60000", four{below, 0, "E", 0})
	m.FastForward(300 * time.Millisecond)
	s.as("w", "again 60000 0 60000", 1)
	s.queue()
	s.nobodyTold()
}

// A claim has a place in the queue by how long it has waited, with a subscription or without.
func TestAClaimWithoutASubscriptionGoesAheadOfThoseThatHaveWaitedForLess(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		for _, row := range []struct {
			word, holds string
			want        any
			left        []string
		}{
			{"again 400 5000- 400", "C", four{held, 0, "", 1}, []string{"w W 60000"}},
			{"again 400 1000- 400", "W", four{below, 0, "W", 1}, []string{"c C 400p"}},
			{"register 400 5000- 400", "", four{-1, 0, "", 1}, []string{"c C 400p", "w W 60000"}},
			{"register 400 1000- 400", "", four{-1, 0, "", 1}, []string{"w W 60000", "c C 400p"}},
		} {
			s.reset()
			s.waits("w W 60000", 3*time.Second)
			s.as("c", row.word, row.want)
			s.holds(row.holds)
			s.queue(row.left...)
		}
	})
}

// The claim had been granted the lock, and the lease is over. Others may have had the key since. So an answer to a poll must say that the claim is new,
// also if the same call has put it back into the queue, and has set the key.
func TestAPollSaysThatAClaimWasTakenOutOfTheQueueBefore(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "c", "w", "x")
		const mine, w = "c C 400", "w W 400"
		for _, release := range []string{"release 0 - 0", "release 400 - 0", "release 400 +C 0", "release 0 =C 0", "undo"} {
			for _, poll := range []string{"again 400 1000 400", "again 400 9000000000000- 400"} {
				s.reset(mine, w)
				s.must("SET", "k", "A", "PX", 60_000)
				s.as("a", release, 2)
				s.holds("C")
				s.must("DEL", "k") // it has expired
				s.must("ZREM", "redlock:queue:k", w)
				s.waits(w, time.Hour)
				s.must("EVALSHA", batchLua.sha(), 1, "k", "w", "again 400 0 400", "W")
				s.holds("W")
				s.as("w", "release 400 free 0", 1)
				s.waits("x X 400", 10*time.Second)
				reply, err := redis.Values(s.conn.Do("EVALSHA", batchLua.sha(), 1, "k", "c", poll, "C"))
				if err != nil || len(reply) != 5 || reply[3] != int64(1) {
					t.Errorf("%s, %s: answered %v (%v), want that the claim is new", release, poll, reply, err)
				}
			}
		}
	})
}

// A client that has lost its subscription, or has one again, has one member in the queue, at the same place.
func TestAClaimKeepsItsPlaceWhenItsSubscriptionBeginsOrEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "c", "w")
		s.reset()
		s.must("SET", "k", "A", "PX", 60_000)
		s.as("c", "register 0 3000 400", four{below, 0, "A", 1})
		s.as("w", "register 0 1000 400", four{below, 0, "A", 1})
		for _, row := range []struct{ poll, member string }{
			{"again 0 1000- 400", "c C 400p"},
			{"again 0 0 400", "c C 400"},
			{"again 0 999- 400", "c C 400"},
			{"again 0 1001- 400", "c C 400p"},
		} {
			s.as("c", row.poll, four{below, 0, "A", 0})
			s.queue(row.member, "w W 400")
		}
		s.as("c", "release 400", -1)
		s.queue("w W 400")
	})
}

// An open release leaves the lock to those who do not queue, or that wait already.
func TestAClaimBehindAnOpenReleaseOfItsCallTakesNoKey(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		for _, row := range []struct {
			word  string
			isNew int64
			left  []string
		}{
			{"register 60000 5000- 400", 1, []string{"a B 400p", "w W 60000"}},
			{"register 60000 1000- 400", 1, []string{"w W 60000", "a B 400p"}},
			{"register 60000 999- 400", 0, []string{"w W 60000"}},
			{"register 60000 5000 400", 1, []string{"a B 400", "w W 60000"}},
		} {
			s.reset()
			s.waits("w W 60000", 3*time.Second)
			s.must("SET", "k", "A", "PX", 60_000)
			got, err := redis.Values(s.must("EVALSHA", batchLua.sha(), 2, "k", "k", "a", "release 400 open 0", "A", row.word, "B"), nil)
			if err != nil || len(got) != 2 || got[0] != int64(2) {
				t.Fatalf("%s: answered %v, %v, want that the lock is passed on", row.word, got, err)
			}
			s.answered("a", row.word, got[1], four{-1, 0, "", row.isNew})
			s.told("w", "A k")
			s.holds("")
			s.queue(row.left...)
			s.nobodyTold()
		}
	})
}
