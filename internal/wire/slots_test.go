package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A slotScene runs the commands of several clients on one semaphore, "k".
type slotScene struct {
	*testing.T
	conn redis.Conn
}

func newSlotScene(t *testing.T, dial func() redis.Conn, listeners ...string) *slotScene {
	t.Helper()
	s := &slotScene{t, dial()}
	for _, id := range listeners {
		if _, err := dial().Do("SUBSCRIBE", "redlock:wake:"+id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.conn.Do("SCRIPT", "LOAD", slotsLua.text()); err != nil {
		t.Fatal(err)
	}
	for _, id := range listeners {
		s.note(id, live[0], live[1])
	}
	return s
}

// says fails the test unless a word by a client whose token is its id has this answer: a number, or "slots|standing|new", and "|other"
// if another limit is told.
func (s *slotScene) says(id, word, want string) {
	s.Helper()
	reply, err := s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", id, word, id)
	if err != nil {
		s.Fatalf("%s by %s: %v", word, id, err)
	}
	got := fmt.Sprint(reply)
	if list, ok := reply.([]any); ok {
		got = fmt.Sprintf("%s|%s|%v", list[1], list[2], list[3])
		if list[4] != int64(0) {
			got += fmt.Sprintf("|%v", list[4])
		}
	}
	if got != want {
		s.Errorf("%s by %s: %q, want %q", word, id, got, want)
	}
}

// lives fails the test unless a slot lives for more than least ms, and for most at most.
func (s *slotScene) lives(slot string, least, most float64) {
	s.Helper()
	score, err1 := redis.Float64(s.conn.Do("ZSCORE", "redlock:until:k", slot))
	now, err2 := redis.Int64s(s.conn.Do("TIME"))
	if err1 != nil || err2 != nil {
		s.Fatal(err1, err2)
	}
	if left := score - float64(now[0]*1000+now[1]/1000); left <= least || left > most {
		s.Errorf("slot %s lives for %v ms, want more than %v and at most %v", slot, left, least, most)
	}
}

func TestSlotsAreGivenPassedOnAndExchanged(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B", "C")
		s.says("A", "register 60000 2 1 1 400 0", "1||1") // the slot that it asks for
		s.says("B", "register 60000 2 1 1 400 0", "0||1") // another one
		s.says("C", "register 60000 2 1 0 400 0", "||1")
		s.says("C", "again 400 2 1 0 400 0", "||0")
		s.says("A", "again 400 2 1 0 400 0 0,1", "1|0=B 1=A|0")
		s.says("A", "renew 60000 1", "2") // C waits
		s.says("A", "renew 60000 0", "0")
		s.says("A", "release 2 1 0 400", "1")
		s.says("C", "again 400 2 1 0 400 0 0,1", "1|0=B 1=C|0")
		s.lives("1", 0, 400)
		// C leaves its slot, and wishes that of B, which is given C's in exchange. B is a holder: its own slot lives on.
		s.says("C", "aim 400 2 1 0 400 0 0", "|0=B|0")
		s.says("B", "again 400 2 1 0 400 0", "0,1||0")
		s.lives("0", 30_000, 60_000)
		s.lives("1", 0, 400)
		s.says("B", "heal 60000 2 1 0 400 - 1", "1") // C's wish comes true
		s.says("C", "aim 400 2 1 0 400 0 0", "0|0=C|0")
		s.says("C", "release 2 1 0 400", "1")
		s.says("C", "release 2 1 0 400", "0")
		s.says("B", "release 2 1 0 400", "1")
		s.changes("DEL", "redlock:waiter:A", "redlock:waiter:B", "redlock:waiter:C")
		if n, err := redis.Int(s.conn.Do("DBSIZE")); err != nil || n != 0 {
			t.Errorf("%d keys are left, %v", n, err)
		}
	})
}

// A stands in slot 0, which B wishes, and D waits. Then C leaves its slot: this master gave a slot to A before the others did, and these give A
// one that becomes free next.
func TestAFreeSlotGoesToAClaimThatIsInTheWay(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		for _, row := range []struct {
			name      string
			limit, n  int // n is how many slots A wants
			listeners []string
			aims      bool   // A has aimed at its slot
			a, d      string // what A and D are told at last
		}{
			{"it does not listen", 2, 1, []string{"B", "D"}, false, "0||0", "1||0"},
			{"a claim", 2, 1, []string{"A", "B", "D"}, false, "0,1||0", "||0"},
			{"it has aimed", 2, 1, []string{"A", "B", "D"}, true, "0||0", "1||0"},
			{"it has as many as it wants", 3, 2, []string{"A", "B", "D"}, false, "0,1||0", "2||0"},
		} {
			t.Run(row.name, func(t *testing.T) {
				s := newSlotScene(t, dial, row.listeners...)
				terms := fmt.Sprintf("%d 1 0 400", row.limit)
				aTerms := fmt.Sprintf("%d %d 0 400", row.limit, row.n)
				s.says("A", "register 60000 "+aTerms+" 0", map[int]string{1: "0||1", 2: "0,1||1"}[row.n])
				s.says("C", "register 60000 "+terms+" 0", map[int]string{1: "1||1", 2: "2||1"}[row.n])
				if row.aims {
					s.says("A", "aim 400 "+aTerms+" 0 0", "0|0=A|0")
				}
				s.says("B", "aim 400 "+terms+" 0 0", "|0=A|1")
				s.says("D", "register 60000 "+terms+" 0", "||1")
				s.says("C", "release "+terms, "1")
				s.says("A", "again 400 "+aTerms+" 0", row.a)
				s.says("D", "again 400 "+terms+" 0", row.d)
				if row.a == "0,1||0" && row.n == 1 { // A wins slot 1, and leaves the other one
					s.says("A", "heal 60000 "+terms+" - 1", "1")
					s.says("B", "again 400 "+terms+" 0", "0||0")
					s.says("D", "again 400 "+terms+" 0", "||0")
				}
				s.conn.Do("DEL", slotsKey+"k", "redlock:until:k", "redlock:taken:k", "redlock:permits:k")
			})
		}
	})
}

// A script that ends with an error may leave the bitmap as it should not be. The hash decides who stands in a slot.
func TestAWrongBitmapNeitherLosesNorDoublesASlot(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B", "C")
		s.says("A", "register 60000 3 1 0 400 -", "0||1")
		s.conn.Do("DEL", "redlock:taken:k")
		s.says("B", "register 60000 3 1 0 400 -", "1||1")
		for bit := range 3 {
			s.conn.Do("SETBIT", "redlock:taken:k", bit, 1)
		}
		s.says("C", "register 60000 3 1 0 400 -", "2||1")
	})
}

func TestALimitCountsAllSlotsThatAreTaken(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B", "C")
		s.says("A", "register 60000 9 2 7 400 -", "7,0||1")
		s.says("B", "register 60000 2 1 0 400 -", "||0|9") // slot 1 is free, and two are taken
		s.says("C", "register 60000 3 1 0 400 -", "1||1|9")
	})
}

// The limit that is compared with is that of the last token that was given slots, at once or by a grant.
func TestAClientIsToldOfAnotherLimit(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B", "C")
		s.says("A", "register 60000 2 2 0 400 0", "0,1||1")
		s.says("B", "register 60000 1 1 0 400 0", "||1|2")
		s.says("B", "again 400 1 1 0 400 0", "||0") // it was told
		s.says("C", "register 60000 2 1 0 400 -", "||0")
		s.says("A", "release 2 2 0 400", "1") // B is granted a slot
		s.says("C", "register 60000 2 1 0 400 -", "1||1|1")
		s.says("B", "release 1 1 0 400", "1")
		s.says("C", "release 2 1 0 400", "1")
		s.says("B", "register 60000 1 1 0 400 0", "0||1") // nobody else is there
	})
}

// A head whose client does not listen is skipped. The slots of n that are not all free go to nobody.
func TestFreeSlotsGoToTheFirstClientThatListens(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "C", "D")
		s.says("A", "register 60000 2 2 0 400 0", "0,1||1")
		s.says("B", "register 60000 2 1 0 400 9", "||1")
		s.says("C", "register 60000 2 2 0 400 5", "||1")
		s.says("D", "register 60000 2 1 0 400 0", "||1")
		s.says("A", "heal 60000 2 1 0 400 - 0", "1")
		s.says("C", "again 400 2 2 0 400 5", "||0")
		s.says("D", "again 400 2 1 0 400 0", "||0")
		s.says("A", "release 2 1 0 400", "1")
		s.says("C", "again 400 2 2 0 400 5", "0,1||0")
	})
}

// Clients that have ended are skipped, whatever they have noted: x and y have, and C and D have not. Slots 1 and 2 of three become free.
func TestSlotsThatWereGivenToAClientThatHasEndedGoToTheNext(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "C", "D")
		for _, row := range []struct {
			name    string
			waiters []string // of claims in the order of the queue: the client and n, and its note if it is silent
			want    string   // who stands in the slots 1 and 2
			queue   string   // who waits then
		}{
			{"the first", []string{"x 1", "C 1", "D 1"}, "CD", ""},
			{"the second", []string{"C 1", "x 1", "D 1"}, "CD", ""},
			{"the first two", []string{"x 1", "y 1", "C 1", "D 1"}, "CD", ""},
			{"one that wants both", []string{"x 2", "C 1", "D 1"}, "CD", ""},
			{"one that wants more than are free", []string{"x 3", "C 1", "D 2"}, "C-", "D"},
			{"one behind a claim that wants more", []string{"C 3", "x 1", "D 1"}, "--", "CxD"},
			{"one that is silent", []string{"x 1 silent", "C 2"}, "CC", ""},
			{"all but one that is silent", []string{"C 1 silent", "x 1"}, "--", "C"},
			{"all", []string{"x 1", "y 1"}, "--", ""},
		} {
			for _, polls := range []bool{false, true} {
				t.Run(fmt.Sprint(row.name, ", a poll: ", polls), func(t *testing.T) {
					s := &slotScene{t, s.conn}
					s.says("A", "register 60000 3 1 0 400 -", "0||1")
					s.says("B", "register 60000 3 2 1 400 -", "1,2||1")
					for i, w := range row.waiters {
						s.says(w[:1], fmt.Sprintf("register 60000 3 %s 0 400 %d", w[2:3], 900-10*i), "||1")
						state := live
						if len(w) > 3 {
							state = silent
						}
						s.note(w[:1], state[0], state[1])
					}
					if polls {
						s.conn.Do("ZADD", "redlock:until:k", 1, "1", 1, "2")
						s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", "P", "again 400 3 1 0 400 -", "P")
					} else {
						s.says("B", "release 3 2 1 400", "1")
					}
					got := ""
					for _, slot := range []string{"1", "2"} {
						token, _ := redis.String(s.conn.Do("HGET", slotsKey+"k", slot))
						score, _ := redis.String(s.conn.Do("ZSCORE", "redlock:until:k", slot))
						marked, _ := redis.Int(s.conn.Do("GETBIT", "redlock:taken:k", slot))
						if (token == "") != (score == "") || (token == "") != (marked == 0) {
							t.Errorf("slot %s has the token %q, the expiry %q and the bit %d", slot, token, score, marked)
						}
						got += fmt.Sprintf("%.1s", token+"-")
					}
					queue := ""
					members, _ := redis.Strings(s.conn.Do("ZRANGE", "redlock:permits:k", 0, -1))
					for _, m := range members {
						queue += m[:1]
					}
					if got != row.want || queue != row.queue {
						t.Errorf("the slots went to %q, and %q wait, want %q and %q", got, queue, row.want, row.queue)
					}
					for _, id := range []string{"x", "y"} {
						if known, _ := redis.Bool(s.conn.Do("HEXISTS", slotsKey+"k", "@"+id)); known {
							t.Errorf("the token of %s is still known", id)
						}
					}
					s.conn.Do("DEL", slotsKey+"k", "redlock:until:k", "redlock:taken:k", "redlock:permits:k")
				})
			}
		}
	})
}

// However many claims of clients that have ended are in the queues, and however many semaphores a call is about, it looks through few of them. A
// client that polls gets a free slot all the same, and the next calls do the rest.
func TestACallLooksThroughFewClaims(t *testing.T) {
	onBothUnwatched(t, func(t *testing.T, dial func() redis.Conn) {
		for _, row := range []struct {
			name          string
			polls         bool // not releases
			keys, members int
			n             int      // how many slots the claims in the queues want
			notes         []string // of one claim after the other: its client, of which "silent" is silent by its note
			want          int      // how many claims are looked through
		}{
			{"releases, silent clients", false, 16, 200, 1, []string{"silent"}, 1000},
			{"releases, clients without a note", false, 16, 200, 1, []string{"gone"}, 500},
			{"a release, some clients without a note", false, 1, 3200, 1, []string{"silent", "silent", "silent", "gone"}, 800},
			{"a release, claims for many slots", false, 1, 200, 100, []string{"gone"}, 10},
			{"polls, silent clients", true, 16, 200, 1, []string{"silent"}, 1000},
			{"polls, clients without a note", true, 16, 200, 1, []string{"gone"}, 500},
		} {
			t.Run(row.name, func(t *testing.T) {
				s := newSlotScene(t, dial, "c")
				s.changes("FLUSHALL")
				s.note("silent", silent[0], silent[1])
				word := "release 128 1 0 400"
				if row.polls {
					word = "again 400 128 1 0 400 0"
				}
				args := []any{slotsLua.sha(), row.keys}
				for i := range row.keys {
					args = append(args, fmt.Sprint(slotsKey, "k", i))
				}
				args = append(args, "c")
				clock, err := redis.Int64s(s.conn.Do("TIME"))
				if err != nil {
					t.Fatal(err)
				}
				joined := clock[0]*1e6 + clock[1] - 1e6 // not so lately that all are live, but those without a note are
				for i := range row.keys {
					if !row.polls {
						s.changes("EVALSHA", slotsLua.sha(), 1, fmt.Sprint(slotsKey, "k", i), "c", "register 60000 128 1 0 400 -", "C")
					}
					queue := []any{fmt.Sprint("redlock:permits:k", i)}
					for j := range row.members {
						queue = append(queue, joined+int64(j), fmt.Sprintf("%s G%d 400 %d 128 0", row.notes[j%len(row.notes)], j, row.n))
					}
					s.changes("ZADD", queue...)
					args = append(args, word, "C")
				}
				waiting := func() (n int) {
					for i := range row.keys {
						card, err := redis.Int(s.conn.Do("ZCARD", fmt.Sprint("redlock:permits:k", i)))
						if err != nil {
							t.Fatal(err)
						}
						n += card
					}
					return n
				}
				s.changes("EVALSHA", args...)
				all := row.keys * row.members
				if n := all - waiting(); n > row.want || n < row.want-1-row.keys {
					t.Errorf("%d claims were looked through, want %d, or a few less", n, row.want)
				}
				for i := range row.keys {
					got, _ := redis.String(s.conn.Do("HGET", fmt.Sprint(slotsKey, "k", i), "0"))
					if (got == "C") != row.polls {
						t.Errorf("slot 0 of semaphore %d has the token %q; taken: want %t", i, got, row.polls)
						break
					}
				}
				if row.polls {
					return
				}
				for range all / (row.want - 1) {
					s.changes("EVALSHA", args...)
				}
				if n := waiting(); n > 0 {
					t.Errorf("after as many calls as are needed, %d claims are left", n)
				}
			})
		}
	})
}

// A call may look through so many claims more when it comes to the claim of c. Five of clients that have ended are ahead of that.
func TestWhoIsGivenASlotWhenACallLooksNoFurther(t *testing.T) {
	onBothUnwatched(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "c", "w")
		for _, row := range []struct {
			name, word string
			left       int
			w          string // how many slots w wants, which waits behind the five; "": it does not
			slots      string // of c
			queue      string // who waits then
		}{
			{"a poll that is looked at", "again 400 8 1 0 400 0", 100, "", "0", ""},
			{"a poll that is the last to be looked at", "again 400 8 1 0 400 0", 6, "", "0", ""},
			{"a poll that is not looked at", "again 400 8 1 0 400 0", 5, "", "0", ""},
			{"a poll, and w is not looked at either", "again 400 8 1 0 400 0", 5, "1", "0", "w"},
			{"a poll, and w is", "again 400 8 1 0 400 0", 6, "1", "1", ""},
			{"a poll of a claim that does not wait", "again 400 8 1 0 400 -", 5, "", "0", ""},
			{"a poll for more slots than are free", "again 400 8 9 0 400 0", 5, "", "", "c"},
			{"a poll behind a claim for more slots than are free", "again 400 8 1 0 400 0", 100, "9", "", "wc"},
			{"a registration", "register 60000 8 1 0 400 0", 5, "1", "", "wc"},
		} {
			s.changes("FLUSHALL")
			s.note("silent", silent[0], silent[1])
			s.note("w", live[0], live[1])
			s.says("X", "register 60000 8 1 7 400 -", "7||1")
			s.expires("7")
			for key, n := range map[string]int{"j": 1000 - 1 - row.left, "k": 5} { // at last the queue of j is found empty
				members := []any{"redlock:permits:" + key}
				for i := range n {
					members = append(members, i+1, fmt.Sprintf("silent G%d 400 1 8 0", i))
				}
				s.changes("ZADD", members...)
			}
			if row.w != "" {
				s.changes("ZADD", "redlock:permits:k", 1000, "w W 400 "+row.w+" 8 0")
			}
			replies, err := redis.Values(s.conn.Do("EVALSHA", slotsLua.sha(), 2, slotsKey+"j", slotsKey+"k", "c", "again 400 8 1 0 400 -", "P", row.word, "C"))
			if err != nil || len(replies) != 2 {
				t.Fatalf("%s: %v, %v", row.name, replies, err)
			}
			answer, _ := replies[1].([]any)
			queue := ""
			members, _ := redis.Strings(s.conn.Do("ZRANGE", "redlock:permits:k", 0, -1))
			for _, m := range members {
				queue += m[:1]
			}
			if len(answer) != 6 || fmt.Sprintf("%s", answer[1]) != row.slots || queue != row.queue {
				t.Errorf("%s: answered %s, and %q wait; want the slots %q, and %q", row.name, answer, queue, row.slots, row.queue)
			}
		}
	})
}

// ahead fails the test unless a poll of a claim for one slot of two says that so many are ahead of it.
func (s *slotScene) ahead(id string, want int) {
	s.Helper()
	reply, err := redis.Values(s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", id, "again 400 2 1 0 400 0", id))
	if err != nil || len(reply) != 6 || reply[5] != int64(want) {
		s.Errorf("again by %s: %v, %v, want that %d are ahead", id, reply, err, want)
	}
}

// With a limit of two, three claims are near.
func TestClaimsThatBecomeNearAreTold(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "C", "D", "E")
		told := map[string]func() string{"F": listen(t, dial(), "F"), "G": listen(t, dial(), "G"), "H": listen(t, dial(), "H")}
		s.says("A", "register 60000 2 1 0 400 0", "0||1")
		s.says("B", "register 60000 2 1 0 400 0", "1||1")
		for i, id := range []string{"C", "D", "E", "F", "G", "H"} {
			s.says(id, fmt.Sprintf("register 60000 2 1 0 400 %d", 9000-1000*i), "||1")
		}
		s.ahead("C", 0)
		s.ahead("F", 3)
		s.ahead("H", 5)
		for _, row := range []struct{ id, word, near string }{
			{"A", "release 2 1 0 400", "F"},        // C is granted its slot
			{"D", "aim 400 2 1 0 400 8000 0", "G"}, // leaves the queue
			{"E", "release 2 1 0 400", "H"},        // leaves the queue
		} {
			if _, err := s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", row.id, row.word, row.id); err != nil {
				t.Fatal(err)
			}
			if got, want := told[row.near](), "= "+row.near+" "+slotsKey+"k"; got != want {
				t.Errorf("%s by %s told %s %q, want %q", row.word, row.id, row.near, got, want)
			}
			s.ahead(row.near, 2)
		}
	})
}

// Slot 1 of three becomes free while the claims of a row wait, in their order. C is the first of them.
func TestAFreeSlotGoesToAClaimThatPrefersIt(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		for _, row := range []struct {
			name   string
			claims []string // limit, n, first, g and for how long it has waited, in ms
			want   string
		}{
			{"nobody prefers it", []string{"3 1 1 400 900", "3 1 1 400 800"}, "C"},
			{"the second prefers it", []string{"3 1 0 400 900", "3 1 1! 400 800"}, "D"},
			{"the third prefers it", []string{"3 1 0! 400 900", "3 1 2! 400 800", "3 1 1! 400 700"}, "E"},
			{"two prefer it", []string{"3 1 0! 400 900", "3 1 1! 400 800", "3 1 1! 400 700"}, "D"},
			{"the first prefers another one, the second none", []string{"3 1 0! 400 900", "3 1 1 400 800"}, "D"},
			{"two prefer the same other one", []string{"3 1 0! 400 900", "3 1 2! 400 850", "3 1 0! 400 800"}, "E"},
			{"all prefer others", []string{"3 1 0! 400 900", "3 1 2! 400 850"}, "C"},
			{"the fourth prefers it, which is far", []string{"3 1 0! 400 900", "3 1 2! 400 890", "3 1 0 400 880", "3 1 1! 400 870"}, "E"},
			{"the first has waited more than twice as long", []string{"3 1 0! 400 900", "3 1 1! 400 300"}, "C"},
			{"a moment more than twice as long", []string{"3 1 0! 400 60", "3 1 1! 400 25"}, "D"},
			{"the first wants two", []string{"3 2 0 400 900", "3 1 1! 400 800"}, ""},
			{"the second wants two", []string{"3 1 0! 400 900", "3 2 0 400 850", "3 1 1! 400 800"}, "C"},
			{"the second has another limit", []string{"3 1 0! 400 900", "2 1 0 400 850", "3 1 1! 400 800"}, "C"},
		} {
			t.Run(row.name, func(t *testing.T) {
				s := newSlotScene(t, dial, "C", "D", "E", "F")
				s.says("A", "register 60000 3 2 0 400 -", "0,1||1")
				s.says("B", "register 60000 3 1 2 400 -", "2||1")
				for i, claim := range row.claims {
					s.says(string(rune('C'+i)), "register 60000 "+claim, "||1"+map[bool]string{true: "|3"}[claim[0] == '2'])
				}
				s.says("A", "heal 60000 3 2 0 400 - 0", "1")
				got, _ := redis.String(s.conn.Do("HGET", slotsKey+"k", "1"))
				if got != row.want {
					t.Errorf("slot 1 went to %q, want %q", got, row.want)
				}
				s.conn.Do("DEL", slotsKey+"k", "redlock:until:k", "redlock:taken:k", "redlock:permits:k")
			})
		}
	})
}

// note notes of a client that it counts as live for so many ms more, and as unheard for so many after that.
func (s *slotScene) note(id string, live, unheard int) {
	s.Helper()
	now, err := redis.Int64s(s.conn.Do("TIME"))
	if err != nil {
		s.Fatal(err)
	}
	if _, err := s.conn.Do("SET", "redlock:waiter:"+id, fmt.Sprintf("%d %d", now[0]*1000+now[1]/1000+int64(live), unheard)); err != nil {
		s.Fatal(err)
	}
}

// silent, unheard and live are what is noted of a client.
var silent, unheard, live = [2]int{-5000, 100}, [2]int{-5000, 60_000}, [2]int{60_000, 0}

// A client that waits and may be stopped is passed over, and keeps its place: else a permit would stand still for g, or, while a claim for several
// permits is the head, all that are free would.
func TestAClientThatIsSilentIsNotGivenSlots(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		type waiter struct {
			terms string // limit, n and first
			state [2]int
		}
		one := func(state [2]int) waiter { return waiter{"2 1 0", state} }
		for _, row := range []struct {
			name    string
			waiters []waiter // C, D, and so on
			poll    string   // who polls once slot 1 has expired; "": it is released
			want    string   // who is given slot 1
			order   string   // of those who wait then
		}{
			{"all are live", []waiter{one(live), one(live)}, "", "C", "D"},
			{"the first is silent", []waiter{one(silent), one(live)}, "", "D", "C"},
			{"the first three are silent", []waiter{one(silent), one(silent), one(silent), one(live), one(live)}, "", "F", "GCDE"},
			{"the first is unheard", []waiter{one(unheard), one(live)}, "", "C", "D"},
			{"the second is unheard, behind one that is silent", []waiter{one(silent), one(unheard), one(live)}, "", "E", "CD"},
			{"the first is unheard, and the second polls", []waiter{one(unheard), one(live)}, "D", "D", "C"},
			{"the first is silent, and polls", []waiter{one(silent), one(live)}, "C", "C", "D"},
			{"all are silent", []waiter{one(silent), one(silent)}, "", "", "CD"},
			{"the first is silent, and wants two", []waiter{{"2 2 0", silent}, one(live)}, "", "D", "C"},
			{"the first wants two", []waiter{{"2 2 0", live}, one(live)}, "", "", "CD"},
			{"the first is unheard, and wants two, and the second polls", []waiter{{"2 2 0", unheard}, one(live)}, "D", "", "CD"},
			{"the second prefers the slot, and is silent", []waiter{{"2 1 0!", live}, {"2 1 1!", silent}}, "", "C", "D"},
			{"the second prefers the slot, and is unheard", []waiter{{"2 1 0!", live}, {"2 1 1!", unheard}}, "", "D", "C"},
		} {
			t.Run(row.name, func(t *testing.T) {
				s := newSlotScene(t, dial, "C", "D", "E", "F", "G")
				s.says("A", "register 60000 2 1 0 400 -", "0||1")
				s.says("B", "register 60000 2 1 1 400 -", "1||1")
				word := make(map[string]string)
				for i, w := range row.waiters {
					id := string(rune('C' + i))
					word[id] = fmt.Sprintf("%s 400 %d", w.terms, 900-10*i)
					s.says(id, "register 60000 "+word[id], "||1")
					s.note(id, w.state[0], w.state[1])
				}
				if row.poll == "" {
					s.says("B", "release 2 1 1 400", "1")
				} else {
					s.conn.Do("ZADD", "redlock:until:k", 1, "1")
					s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", row.poll, "again 400 "+word[row.poll], row.poll, "520", "0")
				}
				got, _ := redis.String(s.conn.Do("HGET", slotsKey+"k", "1"))
				if got != row.want {
					t.Errorf("slot 1 went to %q, want %q", got, row.want)
				}
				order := ""
				members, _ := redis.Strings(s.conn.Do("ZRANGE", "redlock:permits:k", 0, -1))
				for _, m := range members {
					order += m[:1]
				}
				if order != row.order {
					t.Errorf("the queue is %s, want %s", order, row.order)
				}
				s.conn.Do("DEL", slotsKey+"k", "redlock:until:k", "redlock:taken:k", "redlock:permits:k")
			})
		}
	})
}

// A poll that finds no slot free passes over nobody.
func TestNobodyIsPassedOverWhileNoSlotIsFree(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "C", "D")
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		for i, id := range []string{"C", "D"} {
			s.says(id, fmt.Sprintf("register 60000 1 1 0 400 %d", 900-10*i), "||1")
		}
		s.note("C", unheard[0], unheard[1])
		s.says("D", "again 400 1 1 0 400 890", "||0")
		s.says("A", "release 1 1 0 400", "1")
		s.says("C", "again 400 1 1 0 400 900", "0||0")
	})
}

// A client that was passed over is told, and its next poll takes it back to its place. While all who queue are silent, a newcomer takes what is free.
func TestAClientThatWasPassedOverHasItsPlaceAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "D", "E")
		told := listen(t, dial(), "C")
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.says("C", "register 60000 1 1 0 400 900", "||1")
		s.note("C", silent[0], silent[1])
		s.says("A", "release 1 1 0 400", "1")
		if got, want := told(), "= C "+slotsKey+"k"; got != want {
			t.Errorf("C was told %q, want %q", got, want)
		}
		s.says("D", "register 60000 1 1 0 400 0", "0||1")
		s.says("E", "register 60000 1 1 0 400 0", "||1")
		reply, err := redis.Values(s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", "C", "again 400 1 1 0 400 900", "C", "520", "0"))
		if err != nil || len(reply) != 6 || reply[5] != int64(0) {
			t.Errorf("C has polled: %v, %v, want that none is ahead", reply, err)
		}
		s.says("D", "release 1 1 0 400", "1")
		s.says("C", "again 400 1 1 0 400 900", "0||0")
	})
}

// A client that was passed over, and has ended since, leaves the queue when the next slot becomes free.
func TestAClientThatEndsAfterItWasPassedOverLeavesTheQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		listener := dial()
		if _, err := listener.Do("SUBSCRIBE", "redlock:wake:C"); err != nil {
			t.Fatal(err)
		}
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.says("C", "register 60000 1 1 0 400 900", "||1")
		s.note("C", silent[0], silent[1])
		s.says("A", "release 1 1 0 400", "1")
		s.says("D", "register 60000 1 1 0 400 -", "0||1")
		if n, err := redis.Int(s.conn.Do("ZCARD", "redlock:permits:k")); n != 1 || err != nil {
			t.Fatalf("%d claims queue, %v, want that of C", n, err)
		}
		if _, err := listener.Receive(); err != nil { // C is told that it was passed over
			t.Fatal(err)
		}
		if _, err := listener.Do("UNSUBSCRIBE", "redlock:wake:C"); err != nil {
			t.Fatal(err)
		}
		s.says("D", "release 1 1 0 400", "1")
		if n, err := redis.Int(s.conn.Do("ZCARD", "redlock:permits:k")); n != 0 || err != nil {
			t.Errorf("%d claims queue, %v, want none", n, err)
		}
	})
}

// A client notes that it waits and runs when it joins the queue, and with each poll.
func TestClientsThatWaitForSlotsNoteThatTheyRun(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "C")
		s.says("A", "register 60000 1 1 0 400 0", "0||1")
		for _, row := range []struct {
			word  string
			notes bool
		}{
			{"register 60000 1 1 0 400 0", true},
			{"again 400 1 1 0 400 0", true},
			{"register 60000 1 1 0 400 -", false},
		} {
			s.conn.Do("DEL", "redlock:waiter:C")
			if _, err := s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", "C", row.word, "C", "520", "1250"); err != nil {
				t.Fatal(err)
			}
			note, _ := redis.String(s.conn.Do("GET", "redlock:waiter:C"))
			if got := strings.HasSuffix(note, " 1250"); got != row.notes {
				t.Errorf("%s: noted %q", row.word, note)
			}
		}
	})
}

// A semaphore has one number, which each claim that stands in its slots raises, whichever they are.
func TestAFenceIsRaisedWhileTheTokenStandsInTheSlots(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B")
		s.says("A", "register 60000 3 2 0 400 -", "0,1||1")
		s.says("B", "register 60000 3 1 2 400 -", "2||1")
		for _, row := range []struct{ id, word, want string }{
			{"A", "commit 90000 0,1 70", "[0,1 70]"},
			{"B", "commit 90000 2 60", "[2 70]"},    // it is not lowered
			{"B", "fence 90000 2 60", "[2 71]"},     // it rises
			{"A", "fence 90000 0,1 90", "[0,1 90]"}, // as far as was proposed
			{"A", "fence 90000 0,2 95", "[0 95]"},   // only its own slots are named
			{"A", "fence 90000 2 99", "[ 0]"},       // another token's slot does not count
			{"C", "commit 90000 0 99", "[ 0]"},
			{"B", "commit 90000 2 95", "[2 95]"},
		} {
			reply, err := s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", row.id, row.word, row.id)
			if got := fmt.Sprintf("%s", reply); err != nil || strings.NewReplacer("%!s(int64=", "", ")", "").Replace(got) != row.want {
				t.Errorf("%s by %s: %s, %v; want %s", row.word, row.id, got, err, row.want)
			}
		}
		s.lives("0", 80000, 90000)
		s.lives("2", 80000, 90000)
		if number, _ := redis.Int(s.conn.Do("GET", "redlock:fence:"+slotsKey+"k")); number != 95 {
			t.Errorf("the number is %d, want 95", number)
		}
		now, _ := redis.Int64s(s.conn.Do("TIME"))
		far := (now[0] + 5) * 4000 // 5 s ahead of the clock
		if _, err := s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", "A", fmt.Sprint("commit 90000 0,1 ", far), "A"); err == nil {
			t.Error("a number that is 5 s ahead of the clock is committed")
		}
		s.conn.Do("ZADD", "redlock:until:k", 1000, 0) // slot 0 has expired, and nobody has noticed
		reply, err := s.conn.Do("EVALSHA", slotsLua.sha(), 1, slotsKey+"k", "A", "fence 90000 0 99", "A")
		if list, _ := redis.Values(reply, err); len(list) != 2 || list[1] != int64(0) {
			t.Errorf("in a slot that has expired, a fence is answered with %s, %v", reply, err)
		}
		s.says("B", "release 3 1 2 400", "1")
		s.says("A", "release 3 2 0 400", "1")
		if number, _ := redis.Int(s.conn.Do("GET", "redlock:fence:"+slotsKey+"k")); number != 95 {
			t.Errorf("after the releases, the number is %d, want 95", number)
		}
	})
}

func TestAnAnswerToACommitOfSlots(t *testing.T) {
	list := func(parts ...any) any { return parts }
	for _, row := range []struct {
		name  string
		reply any
		want  string
	}{
		{"granted", list([]byte("0,3"), int64(70)), "granted 0,3 70"},
		{"the token stands in none", list([]byte(""), int64(0)), "missing  0"},
		{"slots without a number", list([]byte("0"), int64(0)), "bad"},
		{"a number without slots", list([]byte(""), int64(7)), "bad"},
		{"a number below 0", list([]byte("0"), int64(-7)), "bad"},
		{"a number that is text", list([]byte("0"), []byte("7")), "bad"},
		{"slots that are a number", list(int64(0), int64(7)), "bad"},
		{"slots that are none", list([]byte("x"), int64(7)), "bad"},
		{"one part", list([]byte("0")), "bad"},
		{"three parts", list([]byte("0"), int64(7), int64(0)), "bad"},
		{"no list", int64(1), "bad"},
		{"nothing", nil, "bad"},
	} {
		got := "bad"
		if a, ok := decodeSlotCommit(row.reply); ok {
			got = fmt.Sprintf("%s %s %d", map[Outcome]string{Granted: "granted", Missing: "missing"}[a.Outcome], a.Slots, a.Fence)
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

func TestTheKeysOfASemaphoreLiveForLongerThanItsSlots(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A")
		s.says("A", "register 60000 2 1 0 400 -", "0||1")
		for _, key := range []string{slotsKey + "k", "redlock:until:k", "redlock:taken:k"} {
			if ms, err := redis.Int(s.conn.Do("PTTL", key)); err != nil || ms < 2*60000 {
				t.Errorf("%s lives for %d ms, %v, want more than twice as long as the slot", key, ms, err)
			}
		}
	})
}

// The search for a free slot begins near the slot that is preferred.
func TestFreeSlotsBelowThatWhichIsPreferredAreFound(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B")
		s.says("A", "register 60000 16 8 8 400 -", "8,9,10,11,12,13,14,15||1")
		s.says("B", "register 60000 16 1 9 400 -", "0||1")
	})
}

func TestASlotThatHasExpiredIsNotTheTokensAnyMore(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B", "C")
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.says("B", "register 60000 1 1 0 400 0", "||1")
		s.conn.Do("ZADD", "redlock:until:k", 1, "0")          // it has expired long ago
		s.says("C", "register 60000 1 1 0 400 0 0", "|0=B|1") // whoever notices that a slot has expired passes it on
		s.says("A", "again 400 1 1 0 400 - 0", "|0=B|0")
	})
}

// A poll passes on what nobody has released: here, a master has lost a slot.
func TestAPollPassesAFreeSlotOn(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B")
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.says("B", "register 60000 1 1 0 400 0", "||1")
		s.conn.Do("DEL", slotsKey+"k", "redlock:until:k", "redlock:taken:k")
		s.says("B", "again 400 1 1 0 400 0", "0||0")
	})
}

// B has one of two slots, and wishes the other one. Its wish expires before that is left.
func TestAWishThatExpiresLeavesTheOtherSlotsOfItsToken(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B")
		s.says("A", "register 60000 3 1 0 400 -", "0||1")
		s.says("B", "register 60000 3 1 1 400 -", "1||1")
		s.says("B", "aim 400 3 2 0 400 - 0,1", "1|0=A 1=B|0")
		s.conn.Do("HSET", slotsKey+"k", "w0", "B 1 1") // it has expired long ago
		s.says("A", "release 3 1 0 400", "1")
		s.says("B", "again 400 3 2 0 400 - 0,1", "1|1=B|0")
	})
}

// A wish that has come true is over: it is not granted the slot again.
func TestAWishComesTrueOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B")
		s.says("A", "register 60000 3 1 0 400 -", "0||1")
		s.says("B", "aim 60000 3 1 0 400 - 0", "|0=A|1")
		s.says("A", "release 3 1 0 400", "1")
		s.says("B", "again 400 3 1 0 400 - 0", "0|0=B|0")
		if wish, err := s.conn.Do("HGET", slotsKey+"k", "w0"); wish != nil || err != nil {
			t.Errorf("the wish is %s, %v, want none", wish, err)
		}
	})
}

func TestARenewalOfSomeSlotsPassesTheOthersOn(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B")
		s.says("A", "register 60000 2 2 0 400 -", "0,1||1")
		s.says("B", "register 60000 2 1 0 400 0", "||1")
		s.says("A", "renew 60000 1", "1") // nobody waits any more
		s.says("B", "again 400 2 1 0 400 0 0,1", "0|0=B 1=A|0")
	})
}

func TestAMemberOfTheQueueThatIsNoClaimIsPassedOver(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B")
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.says("B", "register 60000 1 1 0 400 0", "||1")
		s.conn.Do("ZADD", "redlock:permits:k", 0, "something")
		s.says("A", "release 1 1 0 400", "1")
		s.says("B", "again 400 1 1 0 400 0", "0||0")
	})
}

func TestAnAimLetsTheSlotsOfItsTokenLive(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A")
		s.says("A", "register 400 2 1 0 400 -", "0||1")
		s.says("A", "aim 60000 2 1 0 400 - 0", "0|0=A|0")
		s.lives("0", 30_000, 60_000)
	})
}

func TestASlotThatHasExpiredIsNotRenewed(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B")
		s.says("A", "register 60000 2 2 0 400 -", "0,1||1")
		s.conn.Do("ZADD", "redlock:until:k", 1, "1")
		s.says("A", "renew 60000 0,1", "0")
		s.conn.Do("HSET", slotsKey+"k", "0", "B")
		s.says("A", "renew 60000 0", "0") // it is another's
		s.conn.Do("HSET", slotsKey+"k", "0", "A")
		s.conn.Do("ZREM", "redlock:until:k", "0")
		s.says("A", "renew 60000 0", "0") // until when it lives is lost
	})
}

// A grant tells how long the record of the memory lives, by which the client knows it.
func TestAGrantOfASlotTellsTheAgeOfTheRecord(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s, listener := newSlotScene(t, dial, "A"), dial()
		if _, err := listener.Do("SUBSCRIBE", "redlock:wake:B"); err != nil {
			t.Fatal(err)
		}
		s.conn.Do("SET", "redlock:incarnation", "a record", "PX", 600_000)
		s.says("A", "register 60000 1 1 0 400 -", "0||1")
		s.says("B", "register 60000 1 1 0 400 0", "||1")
		s.says("A", "release 1 1 0 400", "1")
		parts, err := redis.Strings(listener.Receive())
		if err != nil || len(parts) != 3 {
			t.Fatalf("B is told %q, %v, want a grant", parts, err)
		}
		if words := strings.Fields(parts[2]); len(words) != 6 || len(words[3]) != 6 {
			t.Errorf("B is told %q, want an age of ten minutes as the fourth word", parts[2])
		}
	})
}
