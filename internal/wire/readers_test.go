package wire

import (
	"fmt"
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
		s.do("r1", "readers register 100000 0 -", 1)
		s.key(ReadersMarker, 90*time.Second, 100*time.Second)
		s.do("r2", "readers register 200000 0 -", 1)
		s.key(ReadersMarker, 190*time.Second, 200*time.Second)
		s.do("r3", "readers register 50000 0 -", 1)
		s.key(ReadersMarker, 190*time.Second, 200*time.Second)
		s.lives("redlock:readers:k", 190*time.Second, 200*time.Second)
		if reply, err := s.conn.Do("SET", "k", "W", "NX", "PX", 10000); reply != nil || err != nil {
			t.Errorf("a writer's SET: %v, %v; want nil", reply, err)
		}
		s.do("w", "acquire 100000 -", byReaders)
		s.do("w", "release 0", -1) // its key expired before the readers came
		s.key(ReadersMarker, 190*time.Second, 200*time.Second)
		s.do("r2", "readers release", 1)
		s.key(ReadersMarker, 90*time.Second, 100*time.Second) // as long as the longest reader that is left
		s.do("r2", "readers release", 0)
		s.do("r1", "readers undo", 1)
		s.key(ReadersMarker, 40*time.Second, 50*time.Second)
		s.do("r3", "readers release", 1)
		s.key("", 0, 0)
		if n, _ := redis.Int(s.conn.Do("EXISTS", "redlock:readers:k")); n != 0 {
			t.Error("the set of readers is left")
		}
		s.do("w", "acquire 100000 -", 1)
		s.do("r1", "readers register 100000 0 -", below)
		s.do("r1", "readers renew 100000", -1)
		s.do("r1", "readers heal 100000 0", 0)
		s.do("r1", "readers release", -1)
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
		s.do("dead", "readers register 100000 0 -", 1)
		s.do("r", "readers register 100000 0 -", 1)
		s.expire("dead")
		s.do("dead", "readers renew 100000", 0) // although the key still holds the marker
		s.do("dead", "readers release", 0)
		s.do("dead", "readers register 100000 0 -", 1)
		s.expire("dead")
		s.do("other", "readers register 100000 0 -", 1)
		if n, _ := redis.Int(s.conn.Do("ZCARD", "redlock:readers:k")); n != 2 {
			t.Errorf("the set has %d members, want those two that stand", n)
		}
		s.do("dead", "readers heal 100000 0", 1)
		s.expire("dead")
		s.do("other", "readers release", 1)
		s.do("r", "readers release", 1)
		s.key("", 0, 0) // since expired readers do not count
	})
}

func TestAReaderIsRenewedOnlyWhereItStands(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.do("r", "readers renew 100000", 0)
		s.do("r", "readers register 50000 0 -", 1)
		s.do("r", "readers renew 100000", 1)
		s.key(ReadersMarker, 90*time.Second, 100*time.Second)
		// Somebody deletes the key by hand. The set is left, and its members must not count for the next marker.
		s.conn.Do("DEL", "k")
		s.do("r", "readers renew 100000", 0)
		s.do("other", "readers register 100000 0 -", 1)
		s.do("r", "readers renew 100000", 0)
		s.do("r", "readers heal 100000 0", 1)
		s.do("r", "readers renew 200000", 1)
		s.key(ReadersMarker, 190*time.Second, 200*time.Second)
	})
}

func TestAWaitingWriterKeepsLaterReadersOut(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		inbox := listen(t, dial(), "r")
		s.do("w", "readers announce 60000", 0) // there are no readers
		s.do("r", "readers register 100000 0 -", 1)
		s.together(func() {
			s.do("w", "readers announce 60000", 1)
			s.do("late", "readers register 100000 50000 -", below)
			s.do("early", "readers register 100000 90000 -", 2)
			s.do("r", "readers renew 100000", 2)
			s.do("w2", "readers announce 5", 1) // it came later, so the announcement still counts from the first
			s.do("w3", "readers announce -", 1) // it does not wait, and leaves the announcement as it is
			s.do("late", "readers register 100000 50000 -", below)
			s.lives("redlock:intent:k", time.Millisecond, 500*time.Millisecond)
		})
		for range 3 {
			if got := inbox(); got != ReadersMarker+" k" {
				t.Errorf("the reader was told %q", got)
			}
		}
		s.conn.Do("DEL", "redlock:intent:k")
		s.do("late", "readers register 100000 100 -", 1)
		s.together(func() {
			s.do("w", "readers announce -", 1) // a TryLock
			s.lives("redlock:intent:k", 20*time.Millisecond, 50*time.Millisecond)
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
		s.do("r1", "readers register 50000 0 -", 1)
		s.do("r2", "readers register 100000 0 -", 1)
		s.do("w2", "register 100000 0 400", byReaders)
		breakOff(Granted, []string{"r2 R2"}, "r2 R2", "r3 R3")
		s.key(ReadersMarker, 40*time.Second, 50*time.Second)
		s.do("r2", "readers renew 100000", 0)
		s.do("r2", "readers heal 100000 0", 1) // of a renewal that has succeeded meanwhile
		breakOff(Granted, []string{"r1 R1", "r2 R2"})
		s.key("W2", 0, 400*time.Millisecond)
		if g, ok := ParseGrant(w2()); !ok || g.Token != "W2" {
			t.Errorf("the writer was told %+v, want that it was granted the lock", g)
		}
		s.conn.Do("DEL", "k") // it has expired
		s.do("r3", "readers register 100000 0 -", 1)
		breakOff(Missing, nil, "r1 R1", "r2 R2")
		s.expire("r3") // nobody stands, and the marker does
		breakOff(Granted, nil, "r1 R1")
		s.key("", 0, 0)
		s.do("r3", "readers register 100000 0 -", 1)
		s.key(ReadersMarker, 90*time.Second, 100*time.Second)
		s.conn.Do("DEL", "k")
		s.conn.Do("SET", "k", "W2", "PX", 100000) // a writer has it meanwhile
		breakOff(OtherToken, nil)
	})
}

func TestAReadersFenceIsTheLastAndIsWrittenBack(t *testing.T) {
	needsLongIntegers(t)
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.do("r", "readers register 100000 0 - 5", []any{int64(1), int64(5)})
		s.do("r", "readers commit 7 50000", []any{int64(1), int64(7)})
		s.do("r", "readers register 100000 0 - 5", []any{int64(1), int64(7)})
		s.do("r", "readers commit 6 50000", []any{int64(-2), int64(7)})
		s.do("r", "readers heal 100000 9", 1)
		s.do("r", "readers release", 1)
		s.do("r", "readers commit 12 50000", []any{int64(0), int64(0)})
		s.do("w", "acquire 100000 - - 3", []any{int64(1), int64(10)})
		s.do("r", "readers commit 12 50000", []any{int64(-1), int64(0)})
		got, err := redis.Values(s.conn.Do("EVALSHA", batchLua.sha(), 1, "k", "r", "readers register 100000 0 - 5", "R"))
		if err != nil || len(got) != 2 || got[0].(int64) >= -1 || got[1] != int64(10) {
			t.Errorf("a refused read: %v, %v", got, err)
		}
		s.conn.Do("EVALSHA", batchLua.sha(), 1, "k", "r", "readers register 100000 0 - 50", "R") // refused: it raises nothing
		s.do("w", "release 0", 1)
		s.do("r", "readers register 100000 0 - 5", []any{int64(1), int64(10)})
		s.do("r", "readers register 100000 0 - 12", []any{int64(1), int64(12)})
		s.do("r", "readers commit 99999999999999 50000", "ERR the fence is")
		before := time.Now()
		got, err = redis.Values(s.conn.Do("EVALSHA", batchLua.sha(), 1, "k", "r", "readers register 100000 0 - 99999999999999", "R"))
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
			s.do("other", "readers register 100000 0 -", 1)
			s.conn.Do(row.command, append([]any{"redlock:fence:k"}, row.args...)...)
			s.do("other", "readers commit 7 50000", row.want)
			s.do("other", "readers release", 1)
			s.do("r", "readers register 100000 0 - 5", row.want)
			s.key("", 0, 0)
			s.do("r", "readers heal 100000 5", row.want)
			s.do("r", "readers release", 1)
		}
	})
}

// A server whose memory is full refuses what would make it fuller. Readers that stand keep the lock.
func TestAReaderIsRenewedWhileTheMemoryIsFull(t *testing.T) {
	onServer(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.do("r", "readers register 50000 0 -", 1)
		if _, err := s.conn.Do("CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction"); err != nil {
			t.Fatal(err)
		}
		s.do("r", "readers renew 100000", 1)
		s.key(ReadersMarker, 90*time.Second, 100*time.Second)
	})
}

// A reader whose fence cannot be written back does not count.
func TestAReadersFenceThatCannotBeWrittenIsAnError(t *testing.T) {
	onServer(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.do("r", "readers register 100000 0 - 5", []any{int64(1), int64(5)})
		if _, err := s.conn.Do("ACL", "SETUSER", "default", "resetkeys", "~k", "~redlock:readers:*", "~redlock:rqueue:*", "~redlock:intent:*", "%R~redlock:fence:*"); err != nil {
			t.Fatal(err)
		}
		s.do("r", "readers register 100000 0 - 4", []any{int64(1), int64(5)})
		s.do("r", "readers register 100000 0 - 7", "ERR The user executing the script")
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
		s.ask(wrong, "EVALSHA", batchLua.sha(), 1, "k", "r", "readers renew 100000", "R")
		got, err := redis.Values(s.conn.Do("EVALSHA", batchLua.sha(), 2, "k", "other", "r", "readers renew 9000", "R", "readers register 9000 0 -", "R"))
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
		got, err := redis.Values(s.conn.Do("EVALSHA", batchLua.sha(), 4, "list", "k", "list", "list", "r",
			"readers register 9000 0 -", "R", "readers register 9000 0 -", "R", "readers renew 9000", "R", "readers release", "R"))
		if want := []any{int64(-1), int64(1), int64(-1), int64(-1)}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("answered %v, %v; want %v", got, err, want)
		}
		if n, _ := redis.Int(s.conn.Do("LLEN", "list")); n != 1 {
			t.Error("the list is gone")
		}
	})
}

// lanes checks which readers stand, and which wait.
func (s *queueScene) lanes(stand, wait []string) {
	s.Helper()
	for key, want := range map[string][]string{"redlock:readers:k": stand, "redlock:rqueue:k": wait} {
		got, _ := redis.Strings(s.must("ZRANGE", key, 0, -1), nil)
		if slices.Sort(got); !slices.Equal(got, want) {
			s.Errorf("%s has %q, want %q", key, got, want)
		}
	}
}

func TestAfterAWriterAllReadersThatWaitAreGrantedTheLock(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "r", "r2", "silent", "w")
		s.reset()
		s.as("a", "register 9000 0 400", 1)
		s.as("r", "readers register 9000 0 400", four{below, 0, "A", 1})
		s.as("r", "readers again 400 0 400", four{below, 0, "A", 0})
		s.as("r2", "readers register 9000 0 800", four{below, 0, "A", 1})
		s.as("gone", "readers register 9000 0 400", four{below, 0, "A", 1})
		s.as("silent", "readers register 9000 60000 400", four{below, 0, "A", 1})
		s.as("w", "register 9000 90000 400", four{below, 0, "A", 1}) // it has waited for longer than all of them
		s.silence("silent")
		s.lives("redlock:rqueue:k", 9*time.Minute, 10*time.Minute)
		s.lanes(nil, []string{"gone GONE 400", "r R 400", "r2 R2 800", "silent SILENT 400"})
		s.as("a", "release 400", 2)
		s.key(ReadersMarker, 700*time.Millisecond, 800*time.Millisecond)
		s.lanes([]string{"r R", "r2 R2"}, []string{"silent SILENT 400"})
		s.told("r", "+ R "+s.run+" -2 0 k")
		s.told("r2", "+ R2 "+s.run+" -2 0 k")
		if !slices.Equal(s.nexts, []string{"W", "W"}) {
			t.Errorf("the readers were told that %q come next, want the writer", s.nexts)
		}
		s.as("r", "readers again 400 0 400", four{held, 0, "", 0}) // the poll tells for how long it stands
		s.as("late", "readers register 9000 0 400", four{below, 0, ReadersMarker, 1})
		s.as("r", "readers release 400", 1)
		s.as("r2", "readers release 800", 2)
		s.holds("W") // and the reader that came late waits for one writer
		s.told("w", "+ W "+s.run+" -2 0 k")
		s.nobodyTold()
		if !slices.Equal(s.nears, []string{"silent"}) {
			t.Errorf("%q were told that they are near or are to look, want the one that was passed over", s.nears)
		}
	})
}

func TestAWriterAsksTheReadersToLeaveIfItIsTheFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "r", "w", "w2", "stopped")
		s.reset("stopped S 400")
		s.silence("stopped")
		s.as("r", "readers register 100000 0 400", 1)
		s.as("w", "register 9000 0 400", byReaders)
		s.told("r", ReadersMarker+" k") // the one ahead of it is stopped
		s.as("w2", "register 9000 0 400", byReaders)
		s.as("w2", "again 400 0 400", byReaders)
		s.nobodyTold()
		s.as("w", "again 400 0 400", byReaders)
		s.told("r", ReadersMarker+" k") // the first message may be lost
		s.as("r", "readers renew 100000", 2)
		s.nobodyTold()
	})
}

// Beside readers, a claim of a reader that has votes elsewhere stands although a writer waits. Else neither might ever have a quorum.
func TestAReaderWithVotesElsewhereStandsBesideReaders(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w", "r2")
		s.reset()
		s.as("r", "readers register 100000 0 400", 1)
		s.as("w", "register 9000 0 400", byReaders)
		s.as("r2", "readers register 9000 0 400", four{below, 0, ReadersMarker, 1})
		s.as("r2", "readers again 400 0 400", four{below, 0, ReadersMarker, 0})
		s.as("r2", "readers asks 400 0 400", four{1, 0, "", 0})
		s.lanes([]string{"r R", "r2 R2"}, nil)
		s.must("ZREM", "redlock:readers:k", "r2 R2")
		s.as("r2", "readers asks 400 0 400", four{1, 0, "", 1}) // it is new: others may have had the key meanwhile
		s.must("DEL", "k")
		s.as("r2", "readers asks 0 0 400", four{-1, 0, "", 1}) // no writer's key is taken where it is free
	})
}

// A reader that stands by a poll has all others that wait stand with it, if no writer waits.
func TestAPollOfAReaderLetsAllIn(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "r", "r2", "r3")
		s.reset()
		s.as("a", "register 9000 0 400", 1)
		for _, reader := range []string{"r", "r2", "r3"} {
			s.as(reader, "readers register 9000 0 400", four{below, 0, "A", 1})
		}
		s.must("DEL", "k") // it has expired
		s.as("new", "readers register 9000 0 400", four{-1, 0, "", 1})
		s.as("r2", "readers again 400 0 400", 1)
		s.lanes([]string{"r R", "r2 R2", "r3 R3"}, nil)
		s.told("r", "+ R "+s.run+" -2 0 k")
		s.told("r3", "+ R3 "+s.run+" -2 0 k")
		s.nobodyTold()
	})
}

// A client that stands in no queue has asked the readers to leave. What is free then is left to it, but for the next writer.
func TestAnAnnouncementKeepsTheKeyFree(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "r2", "w")
		s.reset()
		s.as("r", "readers register 100000 0 400", 1)
		s.as("x", "readers announce 0", 1)
		s.must("PERSIST", "redlock:intent:k")
		s.as("r2", "readers register 9000 0 400", four{below, 0, ReadersMarker, 1})
		s.as("r", "readers release 400", 1)
		s.holds("")
		s.as("r2", "readers again 400 0 400", four{-1, 0, "", 0})
		s.nobodyTold()
		s.as("x", "acquire 9000 - -", 1)
		s.as("x", "release 0", 2) // it lets the readers in, and so ends the announcement
		s.holds(ReadersMarker)
		s.told("r2", "+ R2 "+s.run+" -2 0 k")
		s.as("x", "readers announce 0", 1)
		s.must("PERSIST", "redlock:intent:k")
		s.as("w", "register 9000 0 400", byReaders)
		s.as("r2", "readers release 400", 2)
		s.holds("W")
		s.as("x", "readers retract", 1)
		s.as("w", "release 400", 1)
		s.as("x", "readers retract", 0)
		s.as("r2", "readers register 9000 0 400", 1)
	})
}

// A grant that readers are told of has one fence. They need not have a higher one than readers before them.
func TestReadersThatAreGrantedTheLockHaveOneFence(t *testing.T) {
	needsLongIntegers(t)
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "r", "r2")
		s.reset()
		now := time.Now().UnixMicro() / FenceTick.Microseconds()
		for _, last := range []int64{now - 8, now + 8} {
			proposal := fmt.Sprint(now)
			s.must("SET", "redlock:fence:k", last)
			s.must("SET", "k", "A", "PX", 60_000)
			s.as("r", "readers register 9000 0 400f 5", four{below, last, "A", 1})
			s.as("r2", "readers register 9000 0 400f 5", four{below, last, "A", 1})
			s.as("a", "release 400 - "+proposal, 2)
			want := fmt.Sprint(max(last, now))
			s.told("r", "+ R "+s.run+" -2 "+want+" k")
			s.told("r2", "+ R2 "+s.run+" -2 "+want+" k")
			s.as("r", "readers release 400f", 1)
			s.as("r2", "readers release 400f", 1)
		}
	})
}

// Its number is that of a quorum, whose keys must last as long as the lease.
func TestACommitOfAReaderProlongsItsTime(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newScene(t, dial)
		s.do("r", "readers register 400 0 -", 1)
		s.do("r", "readers commit 7 50000", []any{int64(1), int64(7)})
		s.key(ReadersMarker, 40*time.Second, 50*time.Second)
	})
}

// A call grants nothing that it cannot take out of the queue.
func TestReadersAreNotGrantedTheLockByAUserThatMayNotChangeTheirQueue(t *testing.T) {
	onServer(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "r")
		s.reset()
		s.as("a", "register 9000 0 400", 1)
		s.as("r", "readers register 9000 0 400", four{below, 0, "A", 1})
		s.must("ACL", "SETUSER", "default", "-zrem")
		s.as("a", "release 400", 1)
		s.holds("")
		s.lanes(nil, []string{"r R 400"})
		s.nobodyTold()
	})
}

// A client without a subscription is not told of grants. When it has waited for a second, its claim is in the queue all the same, and its polls
// find that it stands. Each answer says whether the claim is new: others may have had the key since the last one.
func TestAReaderWithoutASubscriptionFindsByAPollThatItStands(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial)
		s.reset()
		s.as("a", "register 9000 0 400", 1)
		s.as("r", "readers register 9000 0- 400", four{below, 0, "A", 0})
		s.as("r", "readers again 400 999- 400", four{below, 0, "A", 0})
		s.lanes(nil, nil)
		s.as("r", "readers again 400 1000- 400", four{below, 0, "A", 1})
		s.lanes(nil, []string{"r R 400p"})
		s.as("a", "release 400", 2)
		s.lanes([]string{"r R"}, nil)
		s.as("r", "readers again 400 1100- 400", four{held, 0, "", 0})
		s.must("ZADD", "redlock:readers:k", "XX", 1, "r R") // its time is over
		s.as("r", "readers again 400 1200- 400", four{1, 0, "", 1})
		s.as("r", "readers release 400", 1)
		s.holds("")
		s.as("a", "register 9000 0 400", 1)
		s.as("r", "readers again 400 1300- 400", four{below, 0, "A", 1})
		s.as("r", "readers release 400", -1)
		s.lanes(nil, nil)
	})
}

// A reader that has lost its subscription, or has one again, has one member in the queue.
func TestAReaderHasOneMemberWhenItsSubscriptionBeginsOrEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "r")
		s.as("a", "register 9000 0 400", 1)
		s.as("r", "readers register 9000 3000 400", four{below, 0, "A", 1})
		s.as("q", "readers again 400 2000- 400", four{below, 0, "A", 1})
		s.as("r", "readers again 400 1000- 400", four{below, 0, "A", 0})
		s.lanes(nil, []string{"q Q 400p", "r R 400p"})
		s.as("r", "readers again 400 0 400", four{below, 0, "A", 0})
		s.lanes(nil, []string{"q Q 400p", "r R 400"})
		s.as("a", "release 400", 2)
		s.lanes([]string{"q Q", "r R"}, nil)
	})
}
