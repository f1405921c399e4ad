package wire

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

func TestReadersShareAKeyThatWritersCannotSet(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.do("r1", "read 100000 0 -", 1)
		s.key(ReadersMarker, 90*time.Second, 100*time.Second)
		s.do("r2", "read 200000 0 -", 1)
		s.key(ReadersMarker, 190*time.Second, 200*time.Second)
		s.do("r3", "read 50000 0 -", 1)
		s.key(ReadersMarker, 190*time.Second, 200*time.Second)
		s.lives("redlock:readers:k", 190*time.Second, 200*time.Second)
		if reply, err := s.conn.Do("SET", "k", "W", "NX", "PX", 10000); reply != nil || err != nil {
			t.Errorf("a writer's SET: %v, %v; want nil", reply, err)
		}
		s.do("w", "acquire 100000 -", byReaders)
		s.do("w", "release 0", -1) // its key expired before the readers came
		s.key(ReadersMarker, 190*time.Second, 200*time.Second)
		s.do("r2", "release", 1)
		s.key(ReadersMarker, 90*time.Second, 100*time.Second) // as long as the longest reader that is left
		s.do("r2", "release", 0)
		s.do("r1", "undo", 1)
		s.key(ReadersMarker, 40*time.Second, 50*time.Second)
		s.do("r3", "quit", 1)
		s.key("", 0, 0)
		if n, _ := redis.Int(s.conn.Do("EXISTS", "redlock:readers:k")); n != 0 {
			t.Error("the set of readers is left")
		}
		s.do("w", "acquire 100000 -", 1)
		s.do("r1", "read 100000 0 -", below)
		s.do("r1", "renew 100000", -1)
		s.do("r1", "heal 100000 0", 0)
		s.do("r1", "release", -1)
		s.key("W", 90*time.Second, 100*time.Second)
		s.do("r1", "release 0", -1)
		s.do("w", "release 0", 1)
		s.do("w", "release 0", 0)
		s.key("", 0, 0)
	})
}

func TestAReaderExpiresByItself(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.do("dead", "read 100000 0 -", 1)
		s.do("r", "read 100000 0 -", 1)
		s.expire("dead")
		s.do("dead", "renew 100000", 0) // although the key still holds the marker
		s.do("dead", "release", 0)
		s.do("dead", "read 100000 0 -", 1)
		s.expire("dead")
		s.do("other", "read 100000 0 -", 1)
		if n, _ := redis.Int(s.conn.Do("ZCARD", "redlock:readers:k")); n != 2 {
			t.Errorf("the set has %d members, want those two that stand", n)
		}
		s.do("dead", "heal 100000 0", 1)
		s.expire("dead")
		s.do("other", "release", 1)
		s.do("r", "release", 1)
		s.key("", 0, 0) // since expired readers do not count
	})
}

func TestAReaderIsRenewedOnlyWhereItStands(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.do("r", "renew 100000", 0)
		s.do("r", "read 50000 0 -", 1)
		s.do("r", "renew 100000", 1)
		s.key(ReadersMarker, 90*time.Second, 100*time.Second)
		// Somebody deletes the key by hand. The set is left, and its members must not count for the next marker.
		s.conn.Do("DEL", "k")
		s.do("r", "renew 100000", 0)
		s.do("other", "read 100000 0 -", 1)
		s.do("r", "renew 100000", 0)
		s.do("r", "heal 100000 0", 1)
		s.do("r", "renew 200000", 1)
		s.key(ReadersMarker, 190*time.Second, 200*time.Second)
	})
}

func TestAWaitingWriterKeepsLaterReadersOut(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		inbox := listen(t, dial(), "r")
		s.do("w", "announce 60000", 0) // there are no readers
		s.do("r", "read 100000 0 -", 1)
		s.together(func() {
			s.do("w", "announce 60000", 1)
			s.do("late", "read 100000 50000 -", -1)
			s.do("early", "read 100000 90000 -", 2)
			s.do("r", "renew 100000", 2)
			s.do("w2", "announce 5", 1) // it came later, so the announcement still counts from the first
			s.do("w3", "announce -", 1) // it does not wait, and leaves the announcement as it is
			s.do("late", "read 100000 50000 -", -1)
			s.lives("redlock:intent:k", time.Millisecond, 500*time.Millisecond)
		})
		for range 3 {
			if got := inbox(); got != ReadersMarker+" k" {
				t.Errorf("the reader was told %q", got)
			}
		}
		s.conn.Do("DEL", "redlock:intent:k")
		s.do("late", "read 100000 100 -", 1)
		s.together(func() {
			s.do("w", "announce -", 1) // a TryLock
			s.lives("redlock:intent:k", 20*time.Millisecond, 50*time.Millisecond)
		})
	})
}

// An announcement ends with the lease of a writer. If others are in the queue, it stands for them.
func TestAReleaseEndsTheAnnouncementUnlessOthersWait(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		listen(t, dial(), "w2")
		for _, queue := range []bool{false, true} {
			s.together(func() {
				s.do("r", "read 100000 0 -", 1)
				s.do("w", "announce 60000", 1)
				s.lives("redlock:rqueue:k", 9*time.Minute, 10*time.Minute)
				s.do("r", "release", 1)
				s.do("late", "read 100000 0 -", -1) // it finds no key
				s.do("w", "acquire 100000 -", 1)
				if queue {
					s.do("w2", "register 100000 0 0", below)
					s.do("w", "release 0", 2)
					s.do("late", "read 100000 0 -", -1)
					s.do("w2", "acquire 100000 -", 1)
					s.do("w2", "release 0", 1)
				} else {
					s.do("w", "release 0", 1)
				}
				s.do("late", "read 100000 0 -", 1)
				s.do("late", "release", 1)
			})
		}
		if n, _ := redis.Int(s.conn.Do("EXISTS", "redlock:rqueue:k", "redlock:intent:k")); n != 0 {
			t.Errorf("%d keys of the announcement are left", n)
		}
	})
}

func TestReadersThatWaitedGetATurnAfterAWriter(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		r, w2 := listen(t, dial(), "r"), listen(t, dial(), "w2")
		s.do("w", "acquire 100000 -", 1)
		s.do("r", "read 100000 0 500", below)
		s.do("r2", "read 100000 0 900", below) // there is no listener
		s.do("", "read 100000 0 900", below)   // it has no id
		if n, _ := redis.Int(s.conn.Do("ZCARD", "redlock:rqueue:k")); n != 2 {
			t.Errorf("%d readers wait, want r and r2", n)
		}
		s.lives("redlock:rqueue:k", 9*time.Minute, 10*time.Minute)
		s.do("w2", "register 100000 0 0", below)
		s.together(func() {
			s.do("w", "release 0", 2)
			s.do("w", "pass", -1) // the key is not free
			s.key(ReadersMarker, time.Millisecond, 500*time.Millisecond)
			s.do("late", "read 100000 0 300", -1)
			s.do("late", "read 100000 0 300", -1) // it waits for a turn, but not for this one
			s.do("w3", "announce 90000", 1)       // a writer that has waited for longer than the reader takes no turn away
			s.do("r", "read 100000 60000 500", 2)
			s.key(ReadersMarker, 90*time.Second, 100*time.Second)
			s.do("r", "read 100000 60000 -", -1) // once
		})
		if got := r(); got != "W k" {
			t.Errorf("the reader was told %q", got)
		}
		s.do("r", "release", 2) // the turn does not wait for the reader named late, which was not woken
		s.key("", 0, 0)
		s.do("r", "pass", 2)
		s.do("r", "read 100000 60000 -", -1) // the turn is over
		if n, _ := redis.Int(s.conn.Do("ZSCORE", "redlock:rqueue:k", "late")); n != 300 {
			t.Errorf("the late reader's place in the queue has the score %d, want 300", n)
		}
		if got := w2(); got != "R k" {
			t.Errorf("the writer was told %q", got)
		}
	})
}

// A quorum of other masters has let a reader in. At this one it waits, or its turn is on.
func TestTheReleaseOfAReaderThatDoesNotStandLeavesTheQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		listen(t, dial(), "r")
		waits := func(want bool) {
			t.Helper()
			s.ask(func(reply any) {
				t.Helper()
				if reply != nil != want {
					t.Errorf("the reader's place in the queue: %v; want one: %v", reply, want)
				}
			}, "ZSCORE", "redlock:rqueue:k", "r")
		}
		s.do("w", "acquire 100000 -", 1)
		s.do("r", "read 100000 0 500", below)
		s.do("r", "undo", -1)
		waits(true)
		s.do("r", "quit", -1)
		waits(false)
		s.do("r", "read 100000 0 500", below)
		s.do("r", "release", -1)
		waits(false)
		s.do("r", "read 100000 0 500", below)
		s.together(func() {
			s.do("w", "release 0", 2)
			s.do("r", "release", 0)
			s.key("", 0, 0) // nobody else was woken
		})
		waits(false)
		// Another goroutine of its Client waits.
		s.do("r", "read 100000 0 -", 1)
		s.do("w", "announce 60000", 1)
		s.ask(func(any) {}, "ZADD", "redlock:rqueue:k", 500, "r")
		s.do("r", "release", 1)
		waits(true)
		// The set of readers that have expired is left beside a writer's key.
		s.do("w", "acquire 100000 -", 1)
		s.ask(func(any) {}, "ZADD", "redlock:readers:k", 1, "other OTHER")
		s.do("r", "release", -1)
		s.key("W", 90*time.Second, 100*time.Second)
	})
}

func TestATurnThatIsOverLetsNoReaderIn(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		listen(t, dial(), "r1")
		listen(t, dial(), "r2")
		s.do("w", "acquire 100000 -", 1)
		s.do("r1", "read 100000 0 1000", below)
		s.do("r2", "read 100000 0 1000", below)
		s.together(func() {
			s.do("w", "release 0", 2)
			s.do("w3", "announce 90000", 1)
			s.do("r1", "read 100000 5 1000", 2)
			s.ask(func(any) {}, "ZADD", "redlock:readers:k", "XX", 1, "turn") // as if its time had passed
			s.do("r2", "read 100000 5 1000", -1)
		})
	})
}

func TestLeasesOfReadersAreEndedByAPerson(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		ask := func(q Query) (replies []any) {
			for _, one := range q {
				reply, err := s.conn.Do(one[0].(string), one[1:]...)
				if err != nil {
					reply = err
				}
				replies = append(replies, reply)
			}
			return replies
		}
		breakOff := func(wantOutcome Outcome, want []string, readers ...string) {
			t.Helper()
			ended, outcome, err := DecodeBreak(ask(NewBreakReaders("k", readers)))
			slices.Sort(ended)
			if err != nil || outcome != wantOutcome || !slices.Equal(ended, want) {
				t.Errorf("NewBreakReaders(%q): %q, %v, %v; want %q, %v", readers, ended, outcome, err, want, wantOutcome)
			}
			if outcome == Granted {
				if _, _, err := DecodeBreak(ask(NewPass("k"))); err != nil {
					t.Errorf("NewPass: %v", err)
				}
			}
		}
		breakOff(Missing, nil)
		w2 := listen(t, dial(), "w2")
		s.do("r1", "read 50000 0 -", 1)
		s.do("r2", "read 100000 0 -", 1)
		s.do("w2", "register 100000 0 0", byReaders)
		breakOff(Granted, []string{"r2 R2"}, "r2 R2", "r3 R3")
		s.key(ReadersMarker, 40*time.Second, 50*time.Second)
		s.do("r2", "renew 100000", 0)
		s.do("r2", "heal 100000 0", 1) // of a renewal that has succeeded meanwhile
		breakOff(Granted, []string{"r1 R1", "r2 R2"})
		s.key("", 0, 0)
		if got := w2(); got != "redlock-break k" {
			t.Errorf("the writer was told %q", got)
		}
		s.do("r3", "read 100000 0 -", 1)
		breakOff(Missing, nil, "r1 R1", "r2 R2")
		s.expire("r3") // nobody stands, and the marker does
		breakOff(Granted, nil, "r1 R1")
		s.key("", 0, 0)
		s.do("r3", "read 100000 0 -", 1)
		s.key(ReadersMarker, 90*time.Second, 100*time.Second)
		s.conn.Do("DEL", "k")
		s.conn.Do("SET", "k", "W2", "PX", 100000) // as a client does that is woken
		breakOff(OtherToken, nil)
	})
}

func TestAReadersFenceIsTheLastAndIsWrittenBack(t *testing.T) {
	needsLongIntegers(t)
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.do("r", "read 100000 0 - 5", []any{int64(1), int64(5)})
		s.do("r", "commit 7", []any{int64(1), int64(7)})
		s.do("r", "read 100000 0 - 5", []any{int64(1), int64(7)})
		s.do("r", "commit 6", []any{int64(1), int64(6)})
		s.do("r", "heal 100000 9", 1)
		s.do("r", "release", 1)
		s.do("r", "commit 12", []any{int64(0), int64(0)})
		s.do("w", "acquire 100000 - - 3", []any{int64(1), int64(10)})
		s.do("r", "commit 12", []any{int64(-1), int64(0)})
		got, err := redis.Values(s.conn.Do("EVALSHA", readersLua.sha, 1, "k", "r", "read 100000 0 - 5", "R"))
		if err != nil || len(got) != 2 || got[0].(int64) >= -1 || got[1] != int64(10) {
			t.Errorf("a refused read: %v, %v", got, err)
		}
		s.conn.Do("EVALSHA", readersLua.sha, 1, "k", "r", "read 100000 0 - 50", "R") // refused: it raises nothing
		s.do("w", "release 0", 1)
		s.do("r", "read 100000 0 - 5", []any{int64(1), int64(10)})
		s.do("r", "read 100000 0 - 12", []any{int64(1), int64(12)})
		s.do("r", "commit 99999999999999", "ERR the fence is")
		before := time.Now()
		got, err = redis.Values(s.conn.Do("EVALSHA", readersLua.sha, 1, "k", "r", "read 100000 0 - 99999999999999", "R"))
		most := time.Now().Add(2*time.Second).UnixMicro() / FenceTick.Microseconds()
		if least := before.UnixMicro() / FenceTick.Microseconds(); err != nil || got[0] != int64(1) || got[1].(int64) < least || got[1].(int64) > most {
			t.Errorf("a read with a number far ahead: %v, %v, want one near %d", got, err, least)
		}
	})
}

func TestAReaderIsRefusedWhereTheFenceIsNoNumber(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		for _, row := range []struct {
			command, want string
			args          []any
		}{
			{"SET", "ERR what is kept as the fence", []any{"nonsense"}},
			{"SET", "ERR what is kept as the fence", []any{"1000000000000000"}},
			{"SET", "ERR what is kept as the fence", []any{"-1"}},
			{"RPUSH", "WRONGTYPE", []any{"1"}},
		} {
			s.conn.Do("DEL", "redlock:fence:k")
			s.do("other", "read 100000 0 -", 1)
			s.conn.Do(row.command, append([]any{"redlock:fence:k"}, row.args...)...)
			s.do("other", "commit 7", row.want)
			s.do("other", "release", 1)
			s.do("r", "read 100000 0 - 5", row.want)
			s.key("", 0, 0)
			s.do("r", "heal 100000 5", row.want)
			s.do("r", "release", 1)
		}
	})
}

// A server whose memory is full refuses what would make it fuller. Readers that stand keep the lock.
func TestAReaderIsRenewedWhileTheMemoryIsFull(t *testing.T) {
	onServer(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.do("r", "read 50000 0 -", 1)
		if _, err := s.conn.Do("CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction"); err != nil {
			t.Fatal(err)
		}
		s.do("r", "renew 100000", 1)
		s.key(ReadersMarker, 90*time.Second, 100*time.Second)
	})
}

// A reader whose fence cannot be written back does not count.
func TestAReadersFenceThatCannotBeWrittenIsAnError(t *testing.T) {
	onServer(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.do("r", "read 100000 0 - 5", []any{int64(1), int64(5)})
		if _, err := s.conn.Do("ACL", "SETUSER", "default", "resetkeys", "~k", "~redlock:readers:*", "~redlock:rqueue:*", "~redlock:intent:*", "%R~redlock:fence:*"); err != nil {
			t.Fatal(err)
		}
		s.do("r", "read 100000 0 - 4", []any{int64(1), int64(5)})
		s.do("r", "read 100000 0 - 7", "ERR The user executing the script")
	})
}

// The error says what is wrong, and the commands of the same call on other keys are executed.
func TestAnErrorOfAReaderIsToldWithItsText(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.conn.Do("SET", "redlock:readers:k", "a text")
		s.conn.Do("SET", "k", ReadersMarker)
		wrong := func(reply any) {
			t.Helper()
			if err, ok := reply.(error); !ok || !strings.Contains(err.Error(), "WRONGTYPE") {
				t.Errorf("the command on the wrong type is answered with %v", reply)
			}
		}
		s.ask(wrong, "EVALSHA", readersLua.sha, 1, "k", "r", "renew 100000", "R")
		got, err := redis.Values(s.conn.Do("EVALSHA", readersLua.sha, 2, "k", "other", "r", "renew 9000", "R", "read 9000 0 -", "R"))
		if err != nil || len(got) != 2 || got[1] != int64(1) {
			t.Fatalf("answered %v, %v", got, err)
		}
		wrong(got[0])
	})
}

func TestAKeyThatIsNoLockFailsAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.conn.Do("RPUSH", "list", "a")
		got, err := redis.Values(s.conn.Do("EVALSHA", readersLua.sha, 4, "list", "k", "list", "list", "r",
			"read 9000 0 -", "R", "read 9000 0 -", "R", "renew 9000", "R", "release", "R"))
		if want := []any{int64(-1), int64(1), int64(-1), int64(-1)}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("answered %v, %v; want %v", got, err, want)
		}
		if n, _ := redis.Int(s.conn.Do("LLEN", "list")); n != 1 {
			t.Error("the list is gone")
		}
	})
}

// A turn of readers announces the clients that wait behind them, or ends the announcement. Without readers that wait, a release touches
// nothing of theirs.
func TestATurnOfReadersAnnouncesThoseBehindThem(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "r", "o")
		for _, row := range []struct {
			name      string
			queue     []string
			waiting   []any // of readers: scores and members
			announced bool  // before
			want      any
			holds     string
			left      []string // of readers
			after     int64    // 1: announced
		}{
			{"somebody waits behind them", []string{"o"}, []any{50, "r"}, false, 2, ReadersMarker, []string{"r", "writer"}, 1},
			{"nobody does", nil, []any{1, "writer", 50, "r"}, true, 2, ReadersMarker, []string{"r"}, 0},
			{"they have ended", nil, []any{50, "gone"}, false, 1, "", nil, 0},
			{"no reader waits", []string{"o"}, nil, false, 2, "", nil, 0},
			{"no reader waits, and it was announced", []string{"o"}, nil, true, 2, "", nil, 1},
		} {
			s.reset(row.queue...)
			s.must("SET", "k", "A", "PX", 60_000)
			if row.waiting != nil {
				s.must("ZADD", append([]any{"redlock:rqueue:k"}, row.waiting...)...)
			}
			if row.announced {
				s.must("SET", "redlock:intent:k", 1)
			}
			if row.waiting != nil { // left from readers whose key has expired
				s.must("ZADD", "redlock:readers:k", int64(9_000_000_000_000), "z Z")
			}
			s.conn.Send("MULTI") // a turn ends by itself
			s.conn.Send("EVALSHA", batchLua.sha, 1, "k", "a", "release 0 - 0", "A")
			s.conn.Send("GET", "k")
			s.conn.Send("ZRANGE", "redlock:rqueue:k", 0, -1)
			s.conn.Send("EXISTS", "redlock:intent:k")
			s.conn.Send("ZRANGE", "redlock:readers:k", 0, -1)
			s.conn.Send("PTTL", "redlock:readers:k")
			replies, err := redis.Values(s.conn.Do("EXEC"))
			if err != nil || len(replies) != 6 {
				t.Fatalf("%q, %v", replies, err)
			}
			readers, _ := redis.Strings(replies[4], nil)
			if ms, _ := redis.Int64(replies[5], nil); row.holds == ReadersMarker && (!slices.Equal(readers, []string{"turn"}) || ms <= 0 || ms > 50) {
				t.Errorf("%s: the readers are %q for %d ms, want the turn for 50 ms", row.name, readers, ms)
			} else if row.holds == "" && row.waiting != nil && !slices.Equal(readers, []string{"z Z"}) {
				t.Errorf("%s: the readers are %q", row.name, readers)
			}
			s.answered("a", row.name, replies[0], row.want)
			holds, _ := redis.String(replies[1], nil)
			if left, _ := redis.Strings(replies[2], nil); holds != row.holds || !slices.Equal(left, row.left) || replies[3] != row.after {
				t.Errorf("%s: the key holds %q, %q wait, and %v is announced; want %q, %q and %d", row.name, holds, left, replies[3], row.holds, row.left, row.after)
			}
			if row.holds == ReadersMarker {
				s.told("r", "A k")
			} else if row.queue != nil {
				s.told("o", "A k")
			}
			s.nobodyTold()
		}
	})
}

// Readers have no turn where no holder releases the lock, and where one leaves it free.
func TestReadersHaveNoTurnAfterAnAttempt(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "r")
		for _, word := range []string{"undo", "release 0 free 0", "release 400 free 0", "release 400 =LONG-TOKEN 0"} {
			s.reset()
			s.must("ZADD", "redlock:rqueue:k", 50, "r")
			s.must("SET", "k", "A", "PX", 60_000)
			s.as("a", word, 1)
			s.holds("")
			s.nobodyTold()
		}
	})
}
