package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// field fails the test unless a field of the semaphore's hash has this value; "": it is missing.
func (s *slotScene) field(name, want string) {
	s.Helper()
	got, err := redis.String(s.conn.Do("HGET", slotsKey+"k", name))
	if got != want || err != nil && err != redis.ErrNil {
		s.Errorf("the field %s is %q, %v, want %q", name, got, err, want)
	}
}

// changes executes a command on the keys of the semaphore, as an error, a lost part of the memory or somebody else might.
func (s *slotScene) changes(command string, args ...any) {
	s.Helper()
	if _, err := s.conn.Do(command, args...); err != nil {
		s.Fatal(err)
	}
}

// forgets deletes what is known of the slots, and these keys.
func (s *slotScene) forgets(keys ...string) {
	s.Helper()
	s.changes("DEL", redis.Args{slotsKey + "k", "redlock:until:k", "redlock:taken:k"}.AddFlat(keys)...)
}

// queueUp has clients queue for the slot of another one. The first has waited for so many ms, and each other one for 1 ms less than the one ahead of it.
func (s *slotScene) queueUp(waited int, ids ...string) {
	s.Helper()
	for i, id := range ids {
		s.says(id, fmt.Sprintf("register 60000 1 1 0 400 %d", waited-i), "||1")
	}
}

// expires lets a slot expire, which nobody has noticed yet.
func (s *slotScene) expires(slot string) {
	s.Helper()
	s.changes("ZADD", "redlock:until:k", 1, slot)
}

// What a token's wish is worth when the slot is left: B wishes slot 0 of A. A claim's slot lives for g, a holder's as long as the wish says.
func TestAWishThatComesTrue(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		t.Run("of a claim", func(t *testing.T) {
			s := newSlotScene(t, dial)
			told := listen(t, dial(), "B")
			s.says("A", "register 60000 3 1 0 400 -", "0||1")
			s.says("B", "register 500 3 1 1 20000 -", "1||1") // its slots live for 20 s if one is granted
			s.says("B", "aim 500 3 2 0 20000 - 0,1", "1|0=A 1=B|0")
			s.says("A", "release 3 1 0 400", "1")
			s.field("0", "B")
			s.field("@B", "B 20000 3 ! 1,0")
			s.lives("0", 10_000, 20_000)
			s.lives("1", 10_000, 20_000)
			if words := strings.Fields(told()); len(words) != 6 || words[0] != "*" || words[1] != "B" || words[4] != "1,0" || words[5] != slotsKey+"k" {
				t.Errorf("B is told %q, want its slots", words)
			}
			s.says("B", "release 3 2 0 400", "1")
		})
		t.Run("of a holder", func(t *testing.T) {
			s := newSlotScene(t, dial)
			s.says("A", "register 60000 3 1 0 400 -", "0||1")
			s.says("B", "heal 60000 3 1 0 400 - 0", "0")
			s.says("A", "release 3 1 0 400", "1")
			s.lives("0", 30_000, 60_000)
			s.field("@B", "B 400 3 ! 0")
			s.says("B", "renew 60000 0", "1")
			s.says("B", "release 3 1 0 400", "1")
		})
		t.Run("of a token that has left", func(t *testing.T) {
			s := newSlotScene(t, dial)
			s.says("A", "register 60000 3 1 0 400 -", "0||1")
			s.says("B", "aim 400 3 1 0 400 - 0", "|0=A|1")
			s.says("B", "release 3 1 0 400", "0")
			s.says("A", "release 3 1 0 400", "1")
			s.says("C", "register 60000 3 1 0 400 -", "0||1")
			s.says("C", "release 3 1 0 400", "1")
		})
		t.Run("that has expired, and is all that its token has", func(t *testing.T) {
			s := newSlotScene(t, dial)
			s.says("A", "register 60000 3 1 0 400 -", "0||1")
			s.says("C", "register 60000 3 1 1 400 -", "1||1")
			s.says("B", "aim 400 3 1 0 400 - 0", "|0=A|1")
			s.changes("HSET", slotsKey+"k", "w0", "B 1 1")
			s.says("A", "release 3 1 0 400", "1")
			s.field("@B", "")
			s.says("C", "release 3 1 0 400", "1")
		})
		t.Run("of the token that leaves the slot", func(t *testing.T) {
			s := newSlotScene(t, dial)
			s.says("A", "register 60000 3 2 0 400 -", "0,1||1")
			s.changes("HSET", slotsKey+"k", "w0", "A 9999999999999 0")
			s.says("A", "renew 60000 1", "1")
			s.field("0", "")
			s.says("A", "release 3 1 0 400", "1")
		})
	})
}

// A leaves slot 0, and wishes slot 1 of B. B is given slot 0 for it, unless B has aimed, or is not known any more. The listeners of a row stay for
// the rows behind it.
func TestWhoIsGivenASlotInExchange(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		for _, row := range []struct {
			name          string
			listeners     []string
			before        func(s *slotScene)
			owner, record string // of slot 0, and of B
		}{
			{"a claim whose client does not listen", nil, func(*slotScene) {}, "B", "B 400 3 - 1,0"},
			{"a claim", []string{"A", "B"}, func(*slotScene) {}, "B", "B 400 3 - 1,0"},
			{"one that has aimed", []string{"A", "B"}, func(s *slotScene) { s.says("B", "aim 60000 3 1 0 400 - 1", "1|1=B|0") }, "", "B 400 3 ! 1"},
			{"one whose record is lost", []string{"A", "B"}, func(s *slotScene) { s.changes("HDEL", slotsKey+"k", "@B") }, "", ""},
		} {
			t.Run(row.name, func(t *testing.T) {
				s := newSlotScene(t, dial, row.listeners...)
				s.says("A", "register 60000 3 1 0 400 -", "0||1")
				s.says("B", "register 60000 3 1 1 400 -", "1||1")
				row.before(s)
				s.says("A", "aim 400 3 1 0 400 - 1", "|1=B|0")
				s.field("0", row.owner)
				s.field("@B", row.record)
				s.forgets()
			})
		}
	})
}

// Slots expire whose tokens have others, have aimed, or are not known.
func TestWhatIsLeftOfATokenWhoseSlotsExpire(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		s.says("A", "register 60000 9 2 0 400 -", "0,1||1")
		s.says("B", "register 60000 9 2 2 400 -", "2,3||1")
		s.says("B", "aim 60000 9 2 0 400 - 2,3", "2,3|2=B 3=B|0")
		s.says("C", "register 60000 9 1 4 400 -", "4||1")
		s.says("C", "aim 60000 9 1 0 400 - 4", "4|4=C|0")
		for _, slot := range []string{"0", "2", "4", "7"} { // nobody has slot 7
			s.expires(slot)
		}
		s.says("D", "register 60000 9 1 8 400 -", "8||1")
		s.field("@A", "A 400 9 - 1")
		s.field("@B", "B 400 9 ! 3")
		s.field("@C", "")
		for id, n := range map[string]int{"A": 2, "B": 2, "D": 1} {
			s.says(id, fmt.Sprintf("release 9 %d 0 400", n), "1")
		}
	})
}

// Releases notice that 70 slots have expired.
func TestManySlotsExpireAtATime(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		for i := range 7 {
			id := fmt.Sprint("A", i)
			first := 10 * i
			if _, err := s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", id, fmt.Sprintf("register 60000 80 10 %d 400 -", first), id); err != nil {
				t.Fatal(err)
			}
		}
		for slot := range 70 {
			s.expires(fmt.Sprint(slot))
		}
		s.says("B", "release 80 1 0 400", "0")
		s.says("B", "release 80 1 0 400", "0")
		if n, err := redis.Int(s.conn.Do("EXISTS", slotsKey+"k", "redlock:until:k")); n != 0 || err != nil {
			t.Errorf("%d keys are left, %v, want none", n, err)
		}
		s.changes("DEL", "redlock:taken:k")
	})
}

// A loose slot goes to the next claim, unless its number is not below the limit of that.
func TestASlotThatWasReleasedGoesToTheNextClaim(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		t.Run("although another one is free", func(t *testing.T) {
			s := newSlotScene(t, dial, "D")
			s.says("A", "register 60000 2 1 1 400 -", "1||1")
			s.says("B", "register 60000 2 1 0 400 -", "0||1")
			s.says("D", "register 60000 2 1 0 400 0", "||1")
			s.changes("HDEL", slotsKey+"k", "0", "@B") // the master has lost a slot
			s.changes("ZREM", "redlock:until:k", "0")
			s.changes("SETBIT", "redlock:taken:k", 0, 0)
			s.says("A", "release 2 1 1 400", "1")
			s.says("D", "again 400 2 1 0 400 0", "1||0")
			s.says("D", "release 2 1 0 400", "1")
		})
		t.Run("below its limit", func(t *testing.T) {
			s := newSlotScene(t, dial, "D")
			s.says("A", "register 60000 9 2 7 400 -", "7,0||1")
			s.says("D", "register 60000 2 1 0 400 0", "||1|9")
			s.says("A", "release 9 2 7 400", "1")
			s.says("D", "again 400 2 1 0 400 0", "0||0")
			s.says("D", "release 2 1 0 400", "1")
		})
	})
}

// Where the memory of a master has lost a part, no command fails, and no slot is given to two tokens.
func TestSemaphoresWhoseKeysDoNotAgree(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		t.Run("a slot that is preferred is above the limit", func(t *testing.T) {
			s := newSlotScene(t, dial)
			s.says("A", "register 60000 2 1 7 400 -", "0||1")
			s.says("A", "release 2 1 7 400", "1")
		})
		t.Run("no slot is counted as taken, but all are", func(t *testing.T) {
			s := newSlotScene(t, dial)
			s.changes("HSET", slotsKey+"k", "0", "X", "1", "Y")
			s.says("A", "register 60000 2 1 0 400 -", "||0")
			s.changes("DEL", slotsKey+"k", "redlock:taken:k")
		})
		t.Run("until when a slot is taken is lost", func(t *testing.T) {
			s := newSlotScene(t, dial)
			s.says("A", "register 60000 2 1 0 400 -", "0||1")
			s.changes("ZREM", "redlock:until:k", "0")
			s.says("A", "aim 60000 2 1 0 400 - 0", "0|0=A|0")
			s.lives("0", 30_000, 60_000)
			s.says("A", "release 2 1 0 400", "1")
		})
		t.Run("a slot that is wished has no owner", func(t *testing.T) {
			s := newSlotScene(t, dial, "A")
			s.says("A", "register 60000 2 1 1 400 -", "1||1")
			s.changes("HSET", slotsKey+"k", "crossed", "0", "w0", "B 9999999999999 1")
			s.says("C", "release 2 1 0 400", "0")
			s.field("crossed", "")
			s.says("A", "release 2 1 1 400", "1")
		})
		t.Run("a wish is over", func(t *testing.T) {
			s := newSlotScene(t, dial, "A")
			s.says("A", "register 60000 2 1 0 400 -", "0||1")
			s.changes("HSET", slotsKey+"k", "crossed", "0")
			s.says("C", "release 2 1 0 400", "0")
			s.field("crossed", "")
			s.field("@A", "A 400 2 - 0")
			s.says("A", "release 2 1 0 400", "1")
		})
		t.Run("the slot of a holder is lost, and a claim takes another one", func(t *testing.T) {
			s := newSlotScene(t, dial, "B")
			s.says("A", "register 60000 2 1 0 400 -", "0||1")
			s.says("C", "register 60000 2 1 1 400 -", "1||1")
			s.says("B", "register 60000 2 1 0 400 0", "||1")
			s.changes("HDEL", slotsKey+"k", "1", "@C")
			s.changes("ZREM", "redlock:until:k", "1")
			s.changes("SETBIT", "redlock:taken:k", 1, 0)
			s.says("A", "aim 60000 2 1 0 400 - 1", "1|1=A|0") // and leaves slot 0
			s.says("B", "again 400 2 1 0 400 0", "0||0")
			s.says("A", "release 2 1 0 400", "1")
			s.says("B", "release 2 1 0 400", "1")
		})
		t.Run("what is noted of a client is no text", func(t *testing.T) {
			s := newSlotScene(t, dial, "B")
			s.says("A", "register 60000 1 1 0 400 -", "0||1")
			s.says("B", "register 60000 1 1 0 400 0", "||1")
			s.changes("DEL", "redlock:waiter:B")
			s.changes("RPUSH", "redlock:waiter:B", "x")
			s.says("A", "release 1 1 0 400", "1")
			s.says("B", "again 400 1 1 0 400 0", "0||0")
			s.says("B", "release 1 1 0 400", "1")
			s.changes("DEL", "redlock:waiter:B")
		})
	})
}

// Claims whose slots others wish are noted until they were given others, or nobody wishes their slots.
func TestClaimsInTheWayAreNoted(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		t.Run("two, one of which is out of the way", func(t *testing.T) {
			s := newSlotScene(t, dial, "A", "B")
			s.says("A", "register 60000 2 1 0 400 -", "0||1")
			s.says("B", "register 60000 2 1 1 400 -", "1||1")
			s.says("C", "aim 60000 2 1 0 400 - 0", "|0=A|1")
			s.says("D", "aim 60000 2 1 0 400 - 1", "|1=B|1")
			s.field("crossed", "0,1")
			s.says("A", "renew 60000 0", "1")
			s.changes("HDEL", slotsKey+"k", "w0")
			s.says("E", "release 2 1 0 400", "0")
			s.field("crossed", "1")
			for _, id := range []string{"A", "B", "D"} {
				s.says(id, "release 2 1 0 400", "1")
			}
		})
		// Slot 7 counts, too: it was given with another limit. So A is given the last one.
		t.Run("and are given no more slots than the limit allows", func(t *testing.T) {
			s := newSlotScene(t, dial, "A", "D")
			s.says("X", "register 60000 9 1 7 400 -", "7||1")
			s.says("A", "register 60000 3 1 0 400 -", "0||1|9")
			s.says("C", "register 60000 3 1 1 400 -", "1||1")
			s.says("B", "aim 60000 3 1 0 400 - 0", "|0=A|1")
			s.says("D", "register 60000 3 1 0 400 0", "||1")
			s.says("C", "release 3 1 1 400", "1")
			s.field("@A", "A 400 3 - 0,1")
			s.field("@D", "")
			s.field("crossed", "")
			s.forgets("redlock:permits:k")
		})
	})
}

// A claim that leaves the queue for its aim was known before.
func TestAClaimThatAimsWasKnownIfItWaited(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "B")
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.says("B", "register 60000 1 1 0 400 0", "||1")
		s.says("B", "aim 400 1 1 0 400 0 0", "|0=A|0")
		s.says("C", "aim 400 1 1 0 400 0 0", "|0=A|1")
		s.says("A", "release 1 1 0 400", "1")
	})
}

// waits fails the test unless the first part of an answer is in a range.
func (s *slotScene) waits(id, word string, least, most int64) {
	s.Helper()
	reply, err := redis.Values(s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", id, word, id))
	if err != nil || len(reply) != 6 {
		s.Fatalf("%s by %s: %v, %v", word, id, reply, err)
	}
	if n, ok := reply[0].(int64); !ok || n < least || n > most {
		s.Errorf("%s by %s: %v, want %d to %d as the first part", word, id, reply, least, most)
	}
	if _, ok := reply[5].(int64); !ok {
		s.Errorf("%s by %s: %v, want a number as the last part", word, id, reply)
	}
}

// keysExpire fails the test unless the keys of the semaphore live for longer than ms.
func (s *slotScene) keysExpire(ms int) {
	s.Helper()
	for _, key := range []string{slotsKey + "k", "redlock:until:k"} {
		if left, err := redis.Int(s.conn.Do("PTTL", key)); err != nil || left <= ms {
			s.Errorf("%s lives for %d ms, %v, want more than %d", key, left, err, ms)
		}
	}
}

// call has a client send several commands for the semaphore in one call, each a word and a token, and returns the answers.
func (s *slotScene) call(id string, words ...string) []any {
	s.Helper()
	args := redis.Args{slotsLua.sha(), len(words) / 2}
	for range len(words) / 2 {
		args = args.Add(slotsKey + "k")
	}
	answers, err := redis.Values(s.conn.Do("EVALSHA", args.Add(id).AddFlat(words)...))
	if err != nil || len(answers) != len(words)/2 {
		s.Fatalf("%d answers to %q, %v", len(answers), words, err)
	}
	return answers
}

// Who stands in slots is told when the first of them expires, and others when the next slot does.
func TestWhenSlotsExpireIsTold(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "B")
		now, err := redis.Int64s(s.conn.Do("TIME"))
		if err != nil {
			t.Fatal(err)
		}
		s.says("A", "register 60000 2 2 0 400 -", "0,1||1")
		s.changes("ZADD", "redlock:until:k", now[0]*1000+30_000, "0") // now[0] is up to a second ago
		s.waits("A", "again 400 2 2 0 400 -", 2+20_000, 2+30_000)
		s.waits("B", "register 60000 2 1 0 400 0", -2-30_000, -2-20_000)
		s.changes("ZREM", "redlock:until:k", "1")
		s.waits("A", "again 400 2 2 0 400 -", 2, 2)
		s.forgets()
		s.waits("C", "register 60000 2 1 0 400 -", -2, -2) // no slot is taken, and B waits
		s.changes("DEL", "redlock:permits:k")
	})
}

// One call releases the only slot that is taken, and gives a claim another one, which it prefers.
func TestASlotThatWasReleasedEarlierInTheCallIsAsAnyOther(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		s.says("A", "register 60000 2 1 0 400 -", "0||1")
		answers := s.call("A", "release 2 1 0 400", "A", "register 60000 2 1 1 400 -", "B")
		if second, ok := answers[1].([]any); answers[0] != int64(1) || !ok || len(second) != 6 || second[0] != int64(1) {
			t.Errorf("the answers are %v", answers)
		}
		s.field("1", "B")
		s.says("B", "release 2 1 1 400", "1")
	})
}

// More clients in a row have ended than are near.
func TestASlotGoesPastManyClientsThatHaveEnded(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "D")
		s.says("A", "register 60000 3 3 0 400 -", "0,1,2||1")
		for i := range 9 {
			s.says(fmt.Sprint("x", i), fmt.Sprintf("register 60000 3 1 0 400 %d", 900-i), "||1")
		}
		s.says("D", "register 60000 3 1 0 400 0", "||1")
		s.says("A", "release 3 3 0 400", "1")
		s.says("D", "again 400 3 1 0 400 0", "0||0")
		s.says("D", "release 3 1 0 400", "1")
	})
}

// A client that has ended says nothing about whether the next one is stopped.
func TestAnUnheardClientBehindOneThatHasEndedIsGivenTheSlot(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "B", "C")
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.queueUp(9, "x", "B", "C")
		s.note("x", silent[0], silent[1])
		s.note("B", unheard[0], unheard[1])
		s.says("A", "release 1 1 0 400", "1")
		s.field("0", "B")
		s.forgets("redlock:permits:k", "redlock:waiter:x", "redlock:waiter:B")
	})
}

// One claim is given a slot, and another one is passed over. So two become near.
func TestClaimsThatBecomeNearSinceOneIsPassedOverAreTold(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "C", "D", "E")
		told := listen(t, dial(), "F")
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.queueUp(900, "C", "D", "E", "F")
		s.note("C", silent[0], silent[1])
		s.says("A", "release 1 1 0 400", "1")
		s.field("0", "D")
		if got, want := told(), "= F "+slotsKey+"k"; got != want {
			t.Errorf("F is told %q, want %q", got, want)
		}
		s.forgets("redlock:permits:k", "redlock:waiter:C")
	})
}

// A claim whose registration is a young mark of a grant polls soon.
func TestAReleaseDoesNotTellAYoungClaimOnSlotsThatItIsNear(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "C", "D", "E")
		told := listen(t, dial(), "F")
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.queueUp(9, "C", "D", "E", "F")
		s.says("A", "release 1 1 0 400", "1")
		s.field("0", "C")
		s.changes("PUBLISH", WakeChannel+"F", "nothing")
		if got := told(); got != "nothing" {
			t.Errorf("F is told %q, want nothing", got)
		}
		s.forgets("redlock:permits:k")
	})
}

// One call polls for a claim, then for one that was passed over, and then releases the slot. The claim that was passed over has waited for longer.
func TestAClaimThatWasPassedOverHasItsPlaceAgainWithinOneCall(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "C")
		poll := func(waited int) string { return fmt.Sprintf("again 400 1 1 0 400 %d", waited) }
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.call("C", poll(900), "old", poll(10), "new")
		members, err := redis.Strings(s.conn.Do("ZRANGE", "redlock:permits:k", 0, 0, "WITHSCORES"))
		if err != nil || len(members) != 2 {
			t.Fatalf("the queue begins with %q, %v", members, err)
		}
		s.changes("ZINCRBY", "redlock:permits:k", "4000000000000000", members[0]) // it was passed over
		s.call("C", poll(10), "new", poll(900), "old", "release 1 1 0 400", "A")
		s.field("0", "old")
		s.forgets("redlock:permits:k")
	})
}

// One call has two commands for one semaphore. The first leaves no slot taken: it has offered the only one to a client that has ended. So the keys
// that the second creates must be given a time to live.
func TestKeysThatAreCreatedAgainWithinOneCallExpire(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "B")
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.says("x", "register 60000 1 1 0 400 0", "||1")
		s.forgets()
		s.call("B", "again 400 1 1 0 400 -", "C", "register 300 1 1 0 300 -", "B")
		s.field("0", "B")
		s.keysExpire(300)
		s.call("B", "heal 60000 1 1 0 400 - 0", "B", "release 1 1 0 400", "B", "register 300 1 1 0 300 -", "C")
		s.field("0", "C")
		s.keysExpire(300)
	})
}

// grants fails the test unless the grant of a permit to B names this process.
func (s *slotScene) grants(told func() string, process string) {
	s.Helper()
	s.says("A", "register 60000 1 1 0 400 -", "0||1")
	s.says("B", "register 60000 1 1 0 400 0", "||1")
	s.says("A", "release 1 1 0 400", "1")
	if words := strings.Fields(told()); len(words) != 6 || words[2] != process {
		s.Errorf("B is told %q, want %s as the third word", words, process)
	}
	s.says("B", "release 1 1 0 400", "1")
}

// A grant names the process of the server, by which the client knows whether it has restarted.
func TestAGrantOfASlotNamesTheProcess(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		info, err := redis.String(s.conn.Do("INFO", "server"))
		if err != nil {
			t.Fatal(err)
		}
		_, run, _ := strings.Cut(info, "run_id:")
		s.grants(listen(t, dial(), "B"), run[:40])
	})
}

// A user who may not ask for the process gets permits, too.
func TestAGrantOfASlotWithoutTheRightToInfo(t *testing.T) {
	onServer(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		s.changes("ACL", "SETUSER", "default", "-info")
		s.grants(listen(t, dial(), "B"), "-")
	})
}

// A claim that joins the queue in the middle of a call is given a slot by a release at the end of it.
func TestAClaimThatJoinsWithinACallIsInItsQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "C")
		s.says("A", "register 60000 2 2 0 400 -", "0,1||1")
		s.call("C", "again 400 2 1 0 400 0", "X", "register 400 2 1 0 400 0", "Y", "release 2 2 0 400", "A")
		s.field("@X", "C 400 2 - 0")
		s.field("@Y", "C 400 2 - 1")
		s.call("C", "release 2 1 0 400", "X", "release 2 1 0 400", "Y")
	})
}

// The queue lives for ten minutes after the last poll. It is written again by each poll, but seldom by further registrations.
func TestTheQueueOfASemaphoreExpires(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "B")
		lives := func() {
			t.Helper()
			if ms, err := redis.Int(s.conn.Do("PTTL", "redlock:permits:k")); err != nil || ms < 500_000 {
				t.Errorf("the queue lives for %d ms, %v, want ten minutes", ms, err)
			}
		}
		for range 4 { // one registration in 16 would do it by chance
			s.says("A", "register 60000 1 1 0 400 -", "0||1")
			s.says("B", "register 60000 1 1 0 400 0", "||1")
			lives()
			s.changes("PEXPIRE", "redlock:permits:k", 100_000)
			s.says("B", "again 400 1 1 0 400 0", "||0")
			lives()
			s.says("A", "release 1 1 0 400", "1")
			s.says("B", "release 1 1 0 400", "1")
		}
	})
}

// An aim stands in slots that are free, or whose time is over, where nothing is known of the semaphore, too.
func TestAnAimStandsInWhatIsFree(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		s.says("A", "aim 60000 2 1 0 400 - 0", "0|0=A|1")
		s.field("@A", "A 400 2 ! 0")
		s.keysExpire(60_000)
		s.expires("0")
		s.says("B", "aim 60000 2 1 0 400 - 0", "0|0=B|1")
		s.field("0", "B")
		s.lives("0", 30_000, 60_000)
		s.says("B", "release 2 1 0 400", "1")
	})
}

// Slot 1 has expired, and slot 7 was given with another limit. A takes slot 2, and leaves slot 0. So one more can be given.
func TestAnAimCountsTheSlotsThatItTakes(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "D", "E")
		s.says("X", "register 60000 9 1 7 400 -", "7||1")
		s.says("A", "register 60000 3 1 0 400 -", "0||1|9")
		s.says("C", "register 60000 3 1 1 400 -", "1||1")
		s.says("D", "register 60000 3 1 0 400 9", "||1")
		s.says("E", "register 60000 3 1 0 400 0", "||1")
		s.expires("1")
		s.says("A", "aim 60000 3 1 0 400 - 2", "2|2=A|0") // D is given a slot, and E is not
		taken, err := redis.Strings(s.conn.Do("ZRANGE", "redlock:until:k", 0, -1))
		if err != nil || len(taken) != 3 {
			t.Errorf("the slots %v are taken, %v, want three", taken, err)
		}
		s.forgets("redlock:permits:k")
	})
}

func TestARenewalOfSlots(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		s.says("A", "register 1000 9 2 0 400 -", "0,1||1")
		s.says("A", "renew 3600000 0,1", "1")
		s.lives("0", 3_500_000, 3_600_000)
		s.lives("1", 3_500_000, 3_600_000)
		s.keysExpire(3_600_000)
		s.says("A", "renew 3600000 1", "1")
		s.field("@A", "A 400 9 - 1")
		s.changes("HDEL", slotsKey+"k", "@A")
		s.says("A", "renew 3600000 1", "0") // what is known of it is lost
		s.forgets()
	})
}

// A server whose memory is full refuses what would make it fuller. Holders keep their permits.
func TestSlotsAreRenewedWhileTheMemoryIsFull(t *testing.T) {
	onServer(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		s.says("A", "register 50000 2 1 0 400 -", "0||1")
		if _, err := s.conn.Do("CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction"); err != nil {
			t.Fatal(err)
		}
		s.says("A", "renew 100000 0", "1")
		s.lives("0", 80_000, 100_000)
	})
}

func TestACommitOfSlotsWritesTheNumberAndLetsTheKeysLive(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		s.says("A", "register 60000 2 1 0 400 -", "0||1")
		answers := func(word, slots string, number int64) {
			t.Helper()
			reply, err := redis.Values(s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", "A", word, "A"))
			if err != nil || len(reply) != 2 || fmt.Sprintf("%s", reply[0]) != slots || reply[1] != number {
				t.Errorf("%s: %s, %v, want %q and %d", word, reply, err, slots, number)
			}
		}
		answers("fence 3600000 0 7", "0", 7)
		if n, err := redis.Int(s.conn.Do("GET", "redlock:fence:"+slotsKey+"k")); n != 7 || err != nil {
			t.Errorf("the number is %d, %v, want 7", n, err)
		}
		s.keysExpire(3_600_000)
		s.changes("ZREM", "redlock:until:k", "0") // until when the slot is taken is lost
		answers("commit 60000 0 9", "", 0)
		s.forgets()
	})
}

// A release finds that another slot has expired, too. C waits for two.
func TestAReleaseFindsThatOthersHaveExpired(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "C")
		s.says("A", "register 60000 2 1 0 400 -", "0||1")
		s.says("B", "register 60000 2 1 1 400 -", "1||1")
		s.says("C", "register 60000 2 2 0 400 0", "||1")
		s.expires("1")
		s.says("A", "release 2 1 0 400", "1")
		s.field("@C", "C 400 2 - 0,1")
		s.keysExpire(400)
		s.says("C", "release 2 2 0 400", "1")
	})
}

// A poll passes a slot on after all keys were lost. The keys that it creates expire.
func TestAGrantLetsTheKeysExpire(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "B")
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.says("B", "register 60000 1 1 0 400 0", "||1")
		s.forgets()
		s.says("B", "again 400 1 1 0 400 0", "0||0")
		s.keysExpire(400)
		s.says("B", "release 1 1 0 400", "1")
	})
}

// The error says what is wrong, and the commands of the same call on other keys are executed.
func TestAnErrorOfASemaphoreIsToldWithItsText(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		s.changes("SET", slotsKey+"k", "a text")
		wrong := func(reply any, text string) {
			t.Helper()
			if err, ok := reply.(error); !ok || !strings.Contains(err.Error(), text) {
				t.Errorf("answered %v, want an error with %s", reply, text)
			}
		}
		for _, row := range []struct{ word, text string }{{"register 60000 1 1 0 400 -", "WRONGTYPE"}, {"nonsense", "unknown word"}} {
			answers, err := redis.Values(s.conn.Do("EVALSHA", slotsLua.sha(), 2, slotsKey+"k", slotsKey+"other", "A", row.word, "A", "register 60000 1 1 0 400 -", "A"))
			if err != nil || len(answers) != 2 {
				t.Fatalf("answered %v, %v", answers, err)
			}
			wrong(answers[0], row.text)
			if list, ok := answers[1].([]any); !ok || len(list) != 6 {
				t.Errorf("the command on the other key is answered with %v", answers[1])
			}
		}
		s.changes("DEL", slotsKey+"k")
	})
}

// A user without the right to ZRANK counts as near.
func TestWhoIsAheadNeedsARight(t *testing.T) {
	onServer(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "B", "C")
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.says("B", "register 60000 1 1 0 400 9", "||1")
		s.ahead("C", 1)
		if _, err := s.conn.Do("ACL", "SETUSER", "default", "-zrank"); err != nil {
			t.Fatal(err)
		}
		s.ahead("C", 0)
	})
}
