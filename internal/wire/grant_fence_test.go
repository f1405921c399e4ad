package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// now returns the server's time as a fence.
func (s *queueScene) now() int64 {
	s.Helper()
	clock, err := redis.Int64s(s.conn.Do("TIME"))
	if err != nil {
		s.Fatal(err)
	}
	return clock[0]*4000 + clock[1]/250
}

func TestAGrantGivesTheFenceThatTheReleaseProposes(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		const minute = 60 * 4000
		ahead := s.now() + 2*minute
		for _, row := range []struct {
			name, member string
			last         int64  // the fence that is kept; 0: none
			word         string // of the client that passes the lock on
			least, most  int64  // the fence that is given
		}{
			{"the proposed one", "w W 60000f", 5, "release 0 - 9", 9, 9},
			{"one above the last", "w W 60000f", 50, "release 0 - 9", 51, 51},
			{"one that is not far ahead", "w W 60000f", 5, fmt.Sprint("release 0 - ", s.now()+minute), s.now() + 4000, s.now() + minute - 1},
			{"none is kept", "w W 60000f", 0, "release 0 - 9", 9, 9},
			{"none is proposed", "w W 60000f", 5, "release 0 - 0", s.now(), s.now() + minute - 1},
			{"none is proposed, with a short word", "w W 60000f", 5, "release", s.now(), s.now() + minute - 1},
			{"none is proposed, and the last is ahead of the clock", "w W 60000f", ahead, "release", ahead + 1, ahead + 1},
			{"to a client that is named", "w W-AND-MORE 60000f", 5, "release 0 W-AND- 9", 9, 9},
			{"by a poll", "w W 60000f", 5, "again 60000 0 60000f 3", s.now(), s.now() + minute - 1},
			{"by a release, whose key has expired", "w W 60000f", 5, "release", s.now(), s.now() + minute - 1},
			{"the client wants none", "w W 60000", 5, "release 0 - 9", 0, 0},
		} {
			for _, held := range []bool{false, true} { // a release finds its key, or not
				if held && !strings.HasPrefix(row.word, "release") {
					continue
				}
				s.reset(row.member)
				if row.last != 0 {
					s.must("SET", "redlock:fence:k", row.last)
				}
				if held {
					s.must("SET", "k", "A", "PX", 60_000)
				}
				word := row.word
				if held { // of a claim that could be granted the lock
					word = strings.Replace(word, "release 0", "release 400", 1)
				}
				s.must("EVALSHA", batchLua.sha(), 1, "k", "a", word, "A")
				got, ok := ParseGrant(s.inbox["w"]())
				if !ok || got.Fence < row.least || got.Fence > row.most {
					t.Errorf("%s, held %t: granted %+v (%v), want a fence from %d to %d", row.name, held, got, ok, row.least, row.most)
				}
				kept, _ := redis.Int64(s.conn.Do("GET", "redlock:fence:k"))
				if want := max(got.Fence, row.last); kept != want {
					t.Errorf("%s, held %t: the fence that is kept is %d, want %d", row.name, held, kept, want)
				}
				s.nobodyTold()
			}
		}
	})
}

// What is kept as the fence may be anything. Then the client is told that the key is free, and hears of the error itself.
func TestNoLockIsGrantedWhoseFenceIsNotANumber(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		for _, kept := range []string{"", "x", "-5", "1e300", "9999999999999999"} {
			for _, word := range []string{"release 0 - 9", "release 400 - 9", "again 60000 - 0"} {
				s.reset("w W 60000f")
				s.must("SET", "redlock:fence:k", kept)
				if word == "release 400 - 9" { // of a claim that could be granted the lock
					s.must("SET", "k", "A", "PX", 60_000)
				}
				s.must("EVALSHA", batchLua.sha(), 1, "k", "a", word, "A")
				s.holds("")
				s.told("w", "A k")
				s.as("w", "again 60000 0 60000f 5", "ERR what is kept as the fence of this name is not a number")
				s.holds("")
				s.as("w", "register 60000 0 60000", 1) // without a fence
				if got, err := redis.String(s.conn.Do("GET", "redlock:fence:k")); got != kept || err != nil {
					t.Errorf("the fence %q became %q", kept, got)
				}
				s.nobodyTold()
			}
		}
	})
}

// A claim that cannot be granted the lock has left the queue, so that it does not block it. Its next poll gets the error, or the lock.
func TestAClaimThatCannotBeGrantedTheLockLeavesTheQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w", "x")
		for _, release := range []string{"release 0 - 9", "release 400 - 9"} {
			s.reset("w W 60000f", "x X 400")
			s.must("SET", "redlock:fence:k", "x")
			s.must("SET", "k", "A", "PX", 60_000)
			s.as("a", release, 2)
			s.holds("")
			s.queue("x X 400")
			s.told("w", "A k")
			s.as("x", "again 400 0 400", 1)
			s.nobodyTold()
		}
	})
}

// The answer to a claim says the fence of the key as it is, also if the key was granted meanwhile.
func TestAPollIsToldTheFence(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		s.as("a", "acquire 100000 - - 7", []any{int64(1), int64(7)})
		s.as("w", "register 100000 0 60000f 3", four{below, 7, "A", 1})
		s.as("a", "release 0 - 20", 2)
		s.told("w", "+ W "+s.run+" -2 20 k")
		s.as("w", "again 60000 0 60000f 3", four{held, 20, "", 0})
		s.as("w", "commit 20 100000", []any{int64(1), int64(20)})
		s.key("W", 90*time.Second, 100*time.Second)
		s.as("w", "release 60000f - 30", 1)
		s.as("w", "again 60000 0 60000f 3", four{1, 21, "", 1})
	})
}

// A commit gives the key its TTL: the vote counts for that time. One that is not exact does not.
func TestACommitExtendsTheKeyIfItIsExact(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial)
		s.as("a", "acquire 50000 - - 7", []any{int64(1), int64(7)})
		s.as("a", "commit 6 100000", []any{int64(-2), int64(7)})
		s.as("b", "commit 8 100000", []any{int64(-1), int64(0)})
		s.as("a", "commit 99999999999999 100000", "ERR the fence is")
		s.key("A", 40*time.Second, 50*time.Second)
		s.as("a", "commit 7 100000", []any{int64(1), int64(7)})
		s.key("A", 90*time.Second, 100*time.Second)
		s.as("a", "commit 8 150000", []any{int64(1), int64(8)})
		s.key("A", 140*time.Second, 150*time.Second)
		s.as("a", "release 0", 1)
		s.as("a", "commit 8 100000", []any{int64(0), int64(0)})
		s.holds("")
	})
}

// A heal sets the key whoever queues: a quorum has renewed the lease. The member is left, and goes with the release.
func TestAHealDoesNotQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		s.reset("w W 60000", "a A 60000")
		s.as("a", "heal 100000 5", 1)
		s.as("x", "heal 100000 5", 0)
		s.key("A", 90*time.Second, 100*time.Second)
		s.queue("w W 60000", "a A 60000")
		s.as("a", "release 60000", 2)
		s.told("w", "+ W "+s.run+" -2 0 k")
		s.queue()
	})
}

// A client that may not read run_id cannot say which memory a grant is of. Then the message says none, and a poll finds the grant.
func TestAClientWithoutTheRightToInfoGrantsWithoutTheRunID(t *testing.T) {
	server := redisserver.StartTB(t, 1)[0]
	s := newQueueScene(t, func() redis.Conn { return dialAs(t, server) }, "w", "x")
	s.must("ACL", "SETUSER", "blind", "reset", "on", "nopass", "+@all", "&*", "~*", "-info")
	blind := *s
	blind.scene = &scene{T: t, conn: dialAs(t, server)}
	if _, err := blind.conn.Do("AUTH", "blind", "x"); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ key, word string }{{"A", "release 0 - 0"}, {"A", "release 400 - 0"}, {"A", "undo"}, {"", "release"}, {"", "again 60000 - 60000"}} {
		s.reset("w W 60000", "x X 60000")
		if row.key != "" {
			s.must("SET", "k", row.key, "PX", 60_000)
		}
		blind.must("EVALSHA", batchLua.sha(), 1, "k", "a", row.word, "A")
		s.key("W", 50*time.Second, 60*time.Second)
		s.queue("x X 60000")
		s.told("w", "+ W - -2 0 k")
		s.as("w", "again 60000 0 60000", four{held, 0, "", 0})
		s.as("w", "release 60000 - 0", 2)
		s.told("x", "+ X "+s.run+" -2 0 k")
		s.nobodyTold()
	}
}

// A client that may not remove members passes nothing on. Nor does it try that a thousand times.
func TestAClientWithoutTheRightToRemoveMembersDoesNotGrant(t *testing.T) {
	server := redisserver.StartTB(t, 1)[0]
	s := newQueueScene(t, func() redis.Conn { return dialAs(t, server) }, "w")
	s.must("ACL", "SETUSER", "user", "reset", "on", "nopass", "+@all", "&*", "~*", "-zrem")
	user := *s
	user.scene = &scene{T: t, conn: dialAs(t, server)}
	if _, err := user.conn.Do("AUTH", "user", "x"); err != nil {
		t.Fatal(err)
	}
	s.reset("gone G 60000", "w W 60000")
	s.must("SET", "k", "A")
	user.as("a", "release 0 - 0", 1)
	s.holds("")
	s.queue("gone G 60000", "w W 60000")
	s.nobodyTold()
	stats, _ := redis.String(s.must("INFO", "commandstats"), nil)
	if calls := InfoField(stats, "cmdstat_zrange"); !strings.HasPrefix(calls, "calls=2,") { // the other is that of the check
		t.Errorf("the script has looked at the queue: %q, want once", calls)
	}
	s.reset("w W 60000")
	s.must("SET", "k", "A")
	user.as("a", "release 0 - 0", 1)
	s.holds("")
	s.queue("w W 60000")
	s.nobodyTold()
	s.must("SET", "k", "A")
	user.as("a", "release 400 - 0", 1)
	s.holds("")
	s.nobodyTold()
	s.must("SET", "k", "A")
	user.as("a", "release 400 open 0", 2) // nobody is removed for that
	s.holds("")
	s.queue("w W 60000")
	s.told("w", "A k")
	s.nobodyTold()
}

// Most locks of a crowd are passed on by one call: a release, and the next claim of its client. Its commands, and the polls after
// releases that leave the lock open, are what a turn costs the masters.
func TestAHandoverTakesFewCommands(t *testing.T) {
	server := redisserver.StartTB(t, 1)[0]
	s := newQueueScene(t, func() redis.Conn { return dialAs(t, server) }, "b", "c", "d", "e")
	own := OwnOf(s.run) // as clients use it: the text that has the run_id
	s.must("SCRIPT", "LOAD", own.Texts()[0])
	for _, row := range []struct {
		how   string
		want  int // with that of the call
		told  string
		polls int // the commands of the poll of the head, which was told that the key is free
	}{
		{"-", 11, "+ B $run -2 0 k", 0}, // EVALSHA GET EXISTS ZRANGE TIME SET ZREM PTTL, two PUBLISH, ZADD
		{"open", 9, "A k", 7},           // EVALSHA GET EXISTS ZRANGE TIME PUBLISH DEL ZREM ZADD
	} {
		s.reset("b B 400", "c C 400", "d D 400", "e E 400")
		s.must("SET", "k", "A", "PX", 60_000)
		now, err := redis.Int64s(s.conn.Do("TIME"))
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range []string{"b B 400", "c C 400", "d D 400", "e E 400"} { // they have joined a moment ago
			s.must("ZADD", "redlock:queue:k", fmt.Sprint(now[0]*1_000_000+now[1]-200_000+int64(i)), m)
		}
		s.nears = nil
		calls := s.calls(func() {
			s.must("EVALSHA", own.sha(batchLua), 2, "k", "k", "a", "release 400 "+row.how+" 0", "A", "register 60000 0 400", "A2")
		})
		if calls != row.want {
			t.Errorf("a release that passes the lock on by %q, and the next registration, take %d commands, want %d", row.how, calls, row.want)
		}
		s.told("b", strings.ReplaceAll(row.told, "$run", s.run))
		if row.how == "open" {
			if calls := s.calls(func() {
				s.must("EVALSHA", own.sha(batchLua), 1, "k", "b", "again 400 0 400", "B", 520, 0)
			}); calls != row.polls {
				t.Errorf("the poll of the head, which was told so, takes %d commands, want %d", calls, row.polls)
			}
		}
		s.holds("B")
		s.queue("c C 400", "d D 400", "e E 400", "a A2 400")
		s.nobodyTold()
		if !slices.Equal(s.nears, []string{"e"}) {
			t.Errorf("told that they are near: %q, want the client that became the third", s.nears)
		}
	}
}

// A claim whose registration is a young mark of a grant polls soon, and is not told. The time of this server stands still.
func TestAHandoverTellsTheClaimThatBecomesNearUnlessItIsNew(t *testing.T) {
	s := newQueueScene(t, dialling(t, startMiniredis(t).Addr()), "v", "w", "x", "y")
	now, err := redis.Int64s(s.must("TIME"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		ago   int64 // in µs
		g     string
		nears []string
	}{
		{0, "400", nil}, {150_000, "400", nil}, {150_001, "400", []string{"y"}},
		{150_001, "700f", nil}, {180_000, "700f", nil}, {180_001, "700f", []string{"y"}}, {480_000, "1000", nil}, {480_001, "1000", []string{"y"}},
		{1_000_000, "2000", nil}, {1_000_001, "2000", []string{"y"}},
	} {
		s.reset("v V 400", "w W 400", "x X 400")
		s.must("ZADD", "redlock:queue:k", now[0]*1_000_000+now[1]-row.ago, "y Y "+row.g)
		s.must("SET", "k", "A", "PX", 60_000)
		s.nears = nil
		s.as("a", "release 400 - 0", 2)
		s.holds("V")
		s.told("v", "+ V "+s.run+" -2 0 k")
		s.nobodyTold()
		if !slices.Equal(s.nears, row.nears) {
			t.Errorf("joined %d µs ago, with a g of %s: told that they are near: %q, want %q", row.ago, row.g, s.nears, row.nears)
		}
	}
}

// The message about a grant names the next head, which is not the claim of the client that releases.
func TestAHandoverNamesTheNextHead(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "v", "w")
		for _, row := range []struct {
			queue []string
			nexts []string
		}{
			{[]string{"v V 400", "w W 400"}, []string{"W"}},
			{[]string{"v V 400", "a A 400", "w W 400"}, []string{"W"}},
			{[]string{"v V 400", "a A 400"}, nil},
		} {
			s.reset(row.queue...)
			s.must("SET", "k", "A", "PX", 60_000)
			s.nexts = nil
			s.as("a", "release 400 - 0", 2)
			s.told("v", "+ V "+s.run+" -2 0 k")
			s.nobodyTold()
			if !slices.Equal(s.nexts, row.nexts) {
				t.Errorf("%q: the next head is %q, want %q", row.queue, s.nexts, row.nexts)
			}
		}
	})
}

// Whether the head has ended is found out by the message to it, which nobody hears. Then the next one is granted the lock.
func TestAHandoverToAClientThatHasEndedGoesOnToTheNext(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w", "x", "y")
		for _, row := range []struct {
			how, holds, told string
			queue            []string
			ahead            int64
		}{
			{"-", "W", "+ W $run -2 0 k", []string{"x X 400", "y Y 400", "a A2 400"}, 2},
			{"open", "", "A k", []string{"w W 400", "x X 400", "y Y 400", "a A2 400"}, 3},
		} {
			s.reset("gone G 400", "w W 400", "x X 400", "y Y 400")
			s.must("SET", "k", "A", "PX", 60_000)
			list, err := redis.Values(s.must("EVALSHA", batchLua.sha(), 2, "k", "k", "a", "release 400 "+row.how+" 0", "A", "register 60000 0 400", "A2"), nil)
			if err != nil || len(list) != 2 || list[0] != int64(2) {
				t.Fatalf("%s: answered %v (%v)", row.how, list, err)
			}
			if registered, _ := redis.Values(list[1], nil); len(registered) != 5 || registered[4] != row.ahead {
				t.Errorf("%s: the registration is answered %v, want that %d are ahead", row.how, registered, row.ahead)
			}
			s.holds(row.holds)
			s.queue(row.queue...)
			s.told("w", strings.ReplaceAll(row.told, "$run", s.run))
			s.nobodyTold()
		}
	})
}

// The holder names the next claim, since the queues of masters may differ. Each master has it wherever it stands.
func TestAReleasePassesTheLockOnToTheClaimThatItsHolderNames(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "u", "v", "w", "x", "y", "c")
		const u, v, w, x, y = "u TOKEN-U 400", "v TOKEN-V 400", "w TOKEN-W 400", "x TOKEN-X 400", "y TOKEN-Y 400"
		for _, row := range []struct {
			name   string
			token  string
			silent string
			holds  string
			left   []string
			nears  []string
			next   string
		}{
			{"the head", "TOKEN-U", "", "TOKEN-U", []string{v, w, x, y}, []string{"x"}, "TOKEN-V"},
			{"the third", "TOKEN-W", "", "TOKEN-W", []string{u, v, x, y}, []string{"x"}, "TOKEN-U"},
			{"the fourth", "TOKEN-X", "", "TOKEN-X", []string{u, v, w, y}, nil, "TOKEN-U"},
			{"the fifth", "TOKEN-Y", "", "TOKEN-Y", []string{u, v, w, x}, []string{"w"}, "TOKEN-U"},
			{"one that is silent", "TOKEN-V", "v", "TOKEN-U", []string{v, w, x, y}, []string{"x"}, "TOKEN-V"},
			{"one that has left", "TOKEN-Z", "", "TOKEN-U", []string{v, w, x, y}, []string{"x"}, "TOKEN-V"},
		} {
			s.reset(u, v, w, x, y)
			if row.silent != "" {
				s.silence(row.silent)
			}
			s.must("SET", "k", "C", "PX", 60_000)
			s.as("c", "release 400 +"+row.token+" 0", 2)
			s.holds(row.holds)
			s.queue(row.left...)
			s.nears, s.nexts = nil, nil
			winner := strings.ToLower(strings.TrimPrefix(row.holds, "TOKEN-"))
			s.told(winner, "+ "+row.holds+" "+s.run+" -2 0 k")
			s.nobodyTold()
			if !slices.Equal(s.nears, row.nears) || !slices.Equal(s.nexts, []string{row.next}) {
				t.Errorf("%s: told that they are near: %q, and that the next head is %q, want %q and %q", row.name, s.nears, s.nexts, row.nears, row.next)
			}
		}
	})
}

// In a call that releases and registers, those that are ahead are not counted if three are.
func TestARegistrationBehindAReleaseLearnsThatItIsFar(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "v", "w", "x", "y")
		for _, row := range []struct {
			how    string
			queue  []string
			waited string
			ahead  int64
		}{
			{"-", []string{"v V 400", "w W 400", "x X 400", "y Y 400"}, "0", 10},
			{"-", []string{"v V 400", "w W 400", "x X 400", "y Y 400"}, "9000000000000", 0}, // it has waited for longer
			{"-", []string{"v V 400", "w W 400", "x X 400"}, "0", 2},
			{"open", []string{"v V 400", "w W 400", "x X 400"}, "0", 10},
			{"open", []string{"v V 400", "w W 400"}, "0", 2},
			{"-", []string{"v V 400", "a A 400", "w W 400", "x X 400"}, "0", 2}, // its own claim leaves
			{"open", []string{"v V 400", "a A 400", "w W 400"}, "0", 2},
		} {
			s.reset(row.queue...)
			s.must("SET", "k", "A", "PX", 60_000)
			list, err := redis.Values(s.must("EVALSHA", batchLua.sha(), 2, "k", "k", "a", "release 400 "+row.how+" 0", "A", "register 60000 "+row.waited+" 400", "A2"), nil)
			if err != nil || len(list) != 2 {
				t.Fatalf("%v: answered %v (%v)", row, list, err)
			}
			if registered, _ := redis.Values(list[1], nil); len(registered) != 5 || registered[4] != row.ahead {
				t.Errorf("%v: answered %v, want that %d are ahead", row, registered, row.ahead)
			}
		}
	})
}

// A claim that joins in the same microsecond as the third may be ahead of it. So those that are ahead are counted.
func TestARegistrationBehindAReleaseIsCountedBesideOneOfTheSameTime(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "v", "w", "x")
		s.must("SET", "k", "A", "PX", 60_000)
		now, err := redis.Int64s(s.must("TIME"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, member := range []string{"v V 400", "w W 400", "x X 400"} {
			s.must("ZADD", "redlock:queue:k", now[0]*1_000_000+now[1]+int64(i)-2, member)
		}
		list, err := redis.Values(s.must("EVALSHA", batchLua.sha(), 2, "k", "k", "a", "release 400 open 0", "A", "register 60000 0 400", "A2"), nil)
		if err != nil || len(list) != 2 {
			t.Fatalf("answered %v (%v)", list, err)
		}
		want := int64(10)
		if later, _ := redis.Int64s(s.must("TIME"), nil); later[0] == now[0] && later[1] == now[1] { // time stands still
			want = 2
		}
		if registered, _ := redis.Values(list[1], nil); len(registered) != 5 || registered[4] != want {
			t.Errorf("answered %v, want that %d are ahead", registered, want)
		}
	})
}

// calls returns how many commands the server has executed for f, in scripts and not. PEXPIRE is left out: one registration in 16
// extends the life of the queue.
func (s *queueScene) calls(f func()) (n int) {
	s.Helper()
	s.must("CONFIG", "RESETSTAT")
	f()
	stats, _ := redis.String(s.must("INFO", "commandstats"), nil)
	for _, line := range strings.Split(stats, "\r\n") {
		name, rest, _ := strings.Cut(line, ":calls=")
		calls, _, _ := strings.Cut(rest, ",")
		if one, err := strconv.Atoi(calls); err == nil && !strings.HasPrefix(name, "cmdstat_config") && name != "cmdstat_pexpire" {
			n += one
		}
	}
	return n
}

func TestAKeyOfAnotherTypeInPlaceOfTheQueueIsLeftAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		for _, row := range []struct {
			word string
			want any
		}{
			{"register 60000 0 400", 1},
			{"register 60000 - 0", 1},
			{"again 60000 0 400", four{1, 0, "", 1}},
			{"again 60000 1000- 400", four{1, 0, "", 1}},
			{"again 60000 - 0", 1},
			{"release 400 - 0", 0},
			{"release 400 =LONG-TOKEN 0", 0},
			{"release", 0},
			{"undo", 0},
		} {
			s.reset()
			s.must("SET", "redlock:queue:k", "no queue")
			s.as("c", row.word, row.want)
			s.must("SET", "k", "C", "PX", 60_000)
			s.as("x", "register 60000 0 400", four{below, 0, "C", 0})
			s.as("x", "again 60000 0 400", four{below, 0, "C", 0})
			s.as("c", "release 400 - 0", 1)
			if got, _ := redis.String(s.conn.Do("GET", "redlock:queue:k")); got != "no queue" {
				t.Errorf("%s: the value became %q", row.word, got)
			}
		}
		s.nobodyTold()
	})
}

// A key that is no lock is held by nobody, and is neither deleted nor set.
func TestAKeyThatIsNoLockIsLeftAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		s.reset("w W 60000")
		s.must("RPUSH", "k", "a")
		s.as("c", "register 60000 0 400", four{-1, 0, " ", 1})
		s.as("c", "again 60000 0 400", four{-1, 0, " ", 0})
		s.as("c", "again 60000 - 0", -1)
		s.as("c", "renew 60000", -1)
		s.as("c", "heal 60000 5", 0)
		s.as("c", "commit 5 60000", []any{int64(-1), int64(0)})
		s.as("c", "undo", -1)
		s.as("c", "release", -1)
		s.as("c", "release 400 - 0", -1)
		s.queue("w W 60000")
		if n, _ := redis.Int(s.conn.Do("LLEN", "k")); n != 1 {
			t.Error("the list is gone")
		}
		s.nobodyTold()
	})
}

// Claims with and without a subscription stand in one queue. Each gets its turn.
func TestClaimsWithAndWithoutASubscriptionGetTheirTurns(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w", "x")
		s.as("a", "register 60000 - 0", 1)
		s.as("d", "again 60000 4000- 60000", four{below, 0, "A", 1})
		s.as("w", "register 60000 3000 60000", four{below, 0, "A", 1})
		s.as("e", "again 60000 2000- 60000", four{below, 0, "A", 1})
		s.as("x", "register 60000 1000 60000", four{below, 0, "A", 1})
		s.queue("d D 60000p", "w W 60000", "e E 60000p", "x X 60000")
		s.as("a", "release 0 - 0", 2)
		s.as("d", "again 60000 4100- 60000", 1)
		s.as("d", "release 60000 - 0", 2)
		s.told("w", "+ W "+s.run+" -2 0 k")
		s.as("w", "release 60000 - 0", 2)
		s.as("e", "again 60000 2100- 60000", 1)
		s.queue("x X 60000")
		s.as("e", "release 60000", 2)
		s.told("x", "+ X "+s.run+" -2 0 k")
		s.queue()
		s.nobodyTold()
	})
}

// A release may leave the key open, and a later command of the same call sets it. Those behind see the key as it is.
func TestACallSeesTheKeysThatItHasSet(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "b")
		for _, row := range []struct{ name, sets string }{
			{"out of turn", "register 60000 -- 0"},
			{"heal", "heal 60000 1"},
			{"acquire", "acquire 60000 - - 1"},
		} {
			for _, undone := range []string{"release 400", "undo"} {
				s.reset("b B 400")
				s.must("SET", "k", "A", "PX", 60_000)
				s.must("SET", "redlock:waiter:b", "99999999999999 0")
				s.must("EVALSHA", batchLua.sha(), 3, "k", "k", "k", "a", "release 400 open 0", "A", row.sets, "C", undone, "C", 520, 0)
				if got, _ := redis.String(s.must("GET", "k"), nil); got == "C" {
					t.Errorf("%s, then %s: the key was left", row.name, undone)
				}
			}
		}
	})
}

// A poll behind a release of the same call is told its place, which may be near.
func TestAPollBehindAReleaseIsCounted(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "v", "w", "x")
		s.reset("v V 400", "w W 400", "x X 400", "a A2 400")
		s.must("SET", "k", "A", "PX", 60_000)
		list, err := redis.Values(s.must("EVALSHA", batchLua.sha(), 2, "k", "k", "a", "release 400 - 0", "A", "again 60000 0 400", "A2"), nil)
		if err != nil || len(list) != 2 {
			t.Fatalf("answered %v (%v)", list, err)
		}
		if polled, _ := redis.Values(list[1], nil); len(polled) != 5 || polled[4] != int64(2) {
			t.Errorf("answered %v, want that two are ahead", polled)
		}
	})
}

// A queue lives for ten minutes after its head has polled, or one has joined: each of the first two, and one in 16 of the others.
func TestAQueueIsKeptForItsFirstClients(t *testing.T) {
	m := startMiniredis(t)
	s := newQueueScene(t, dialling(t, m.Addr()))
	for _, row := range []struct {
		name      string
		queue     []string
		word      string
		sixteenth bool // of the microseconds
		kept      bool
	}{
		{"the first joins", nil, "register 9000 0 400", false, true},
		{"the second joins", []string{"v V 400"}, "register 9000 0 400", false, true},
		{"the third joins", []string{"v V 400", "w W 400"}, "register 9000 0 400", false, false},
		{"the third joins, and is one in 16", []string{"v V 400", "w W 400"}, "register 9000 0 400", true, true},
		{"the head polls", []string{"c C 400", "w W 400"}, "again 9000 0 400", false, true},
		{"the second polls", []string{"v V 400", "c C 400"}, "again 9000 0 400", false, false},
		{"the second polls, and is one in 16", []string{"v V 400", "c C 400"}, "again 9000 0 400", true, false},
		{"the second comes back", []string{"v V 400"}, "again 9000 0 400", false, true},
	} {
		s.reset(row.queue...)
		s.must("SET", "k", "X", "PX", 60_000)
		s.must("PEXPIRE", "redlock:queue:k", 5_000)
		at := time.UnixMicro(1_800_000_000_000_000)
		if !row.sixteenth {
			at = at.Add(3 * time.Microsecond)
		}
		m.SetTime(at)
		s.must("EVALSHA", batchLua.sha(), 1, "k", "c", row.word, "C")
		if left, _ := redis.Int64(s.must("PTTL", "redlock:queue:k"), nil); left != 600_000 && row.kept || left != 5_000 && !row.kept {
			t.Errorf("%s: the queue lives for %d ms; is it to be kept for ten minutes? %t", row.name, left, row.kept)
		}
	}
}

// A release has left the lock open, and told a client so, which may be far. A client that does not wait need not leave the lock to that one.
func TestOneThatWillNotWaitTakesALockThatIsLeftOpen(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		for _, row := range []struct{ waited, holds string }{{"0", ""}, {"--", "A2"}} {
			s.reset("w W 400")
			s.must("SET", "k", "A", "PX", 60_000)
			s.must("EVALSHA", batchLua.sha(), 2, "k", "k", "a", "release 400 open 0", "A", "register 60000 "+row.waited+" 400", "A2")
			s.holds(row.holds)
			s.told("w", "A k")
			s.nobodyTold()
		}
	})
}

// Two claims of one client: the first is released to the second, which is released in the same call.
func TestALockThatIsGrantedAndReleasedInOneCallIsFree(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "a")
		for _, how := range []string{"400", "0"} {
			s.reset("a B 400")
			s.must("SET", "k", "A", "PX", 60_000)
			list, err := redis.Values(s.must("EVALSHA", batchLua.sha(), 3, "k", "k", "k", "a", "release "+how, "A", "release 400", "B", "register 60000 0 400", "C"), nil)
			if err != nil || len(list) != 3 || list[0] != int64(2) || list[1] != int64(1) {
				t.Errorf("answered %v (%v), want that it is passed on, and released", list, err)
			}
			s.holds("C")
		}
	})
}
