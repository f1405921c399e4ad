package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A client that has not polled for some time may be stopped: a lock that was granted to it would stand still for g.
func TestASilentClientIsSkippedAndKeepsItsPlace(t *testing.T) {
	of := func(members ...string) []string { return members }
	const o, w, x = "o O 60000", "w W 60000", "x X 60000"
	granted := func(client string) []string {
		return of(client, "+ "+strings.ToUpper(client)+" $run -2 0 k")
	}
	for _, c := range []struct {
		silent []string
		call
	}{
		{of("w"), call{"release: the head", "A", of(w, x), "release 0", 2, "X", of(w), granted("x")}},
		{of("w", "o"), call{"release: some, and some that are gone", "A", of("gone G 400", w, "gone2 G2 400", "gone3 G3 400", o, x), "release 0", 2, "X", of(w, o), granted("x")}},
		{of("w"), call{"release: the head, by one that waited", "A", of(w, x), "release 400", 2, "X", of(w), granted("x")}},
		{of("w"), call{"release: open", "A", of(w, x), "release 0 open", 2, "", of(x, w), of("x", "A k")}},
		{of("x"), call{"release: to a token", "A", of(w, "x LONG-TOKEN 60000", "y Y 60000"), "release 0 =LONG-TOKEN", 2, "W", of("x LONG-TOKEN 60000", "y Y 60000"), granted("w")}},
		{of("w"), call{"release: to a claim without a subscription", "A", of(w, "d D 400p"), "release 0", 2, "", of("d D 400p", w), nil}},
		{of("d"), call{"release: a claim without a subscription is never silent", "A", of("d D 400p", x), "release 0", 2, "", of("d D 400p", x), nil}},
		{of("d"), call{"release: a claim without a subscription is never silent, by one that waited", "A", of("d D 400p", x), "release 400", 2, "", of("d D 400p", x), nil}},
		{of("w", "x"), call{"release: it is told that the key is free if all are silent", "A", of(w, x), "release 0", 2, "", of(w, x), of("w", "A k")}},
		{of("w"), call{"release: it is told that the key is free if all others are gone", "A", of("gone G 400", w, "gone2 G2 400"), "release 0", 2, "", of(w), of("w", "A k")}},
		{of("w"), call{"undo", "A", of(w, x), "undo", 2, "X", of(w), granted("x")}},
		{of("w"), call{"release: the key is free", "", of(w, x), "release", 0, "X", of(w), granted("x")}},
		{of("w"), call{"register: the head", "", of(w, x), "register 60000 0 400", four{-1, 0, "", 1}, "", of(w, x, "c C 400"), nil}},
		{of("w", "d"), call{"register: the head, and one has no subscription", "", of(w, "d D 400p"), "register 60000 0 400", four{-1, 0, "", 1}, "", of(w, "d D 400p", "c C 400"), nil}},
		{of("w", "x"), call{"register: all are silent", "", of(w, x), "register 60000 0 400", 1, "C", of(w, x), nil}},
		{of("w"), call{"again: it is live", "", of(w, "c C 60000", x), "again 60000 0 60000", four{held, 0, "", 0}, "C", of(x, w), of("c", "+ C $run -2 0 k")}},
		{of("w"), call{"again: another one is", "", of(w, x), "again 60000 0 60000", four{below, 0, "X", 1}, "X", of("c C 60000", w), granted("x")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, dial func() redis.Conn) {
				if strings.Contains(c.word, "again") || strings.Contains(c.word, "register") {
					c.beside(c.silent, "c", "c", "w", "x", "o")(t, dial)
				} else {
					c.beside(c.silent, "a", "w", "x", "o")(t, dial)
				}
			})
		})
	}
}

// A client is live for its patience after each of its commands that joins a queue.
func TestAClientIsSilentSomeTimeAfterItsLastPoll(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w", "x")
		for _, row := range []struct {
			word, patience, far string
			want                string // how much longer a far client may be silent, that is noted; "": nothing is
		}{
			{"register 60000 0 60000", "520", "0", "0"},
			{"again 60000 0 60000", "1100", "12500", "12500"},
			{"again 60000 1000- 60000", "1100", "0", "0"},
			{"again 60000 999- 60000", "1100", "0", ""}, // it does not queue yet
			{"again 60000 0 60000", "?", "0", ""},
			{"again 60000 0 60000", "520", "?", ""},
			{"again 60000 - 60000", "1100", "0", ""}, // it does not wait
			{"again 60000 - 0", "1100", "0", ""},
		} {
			s.reset()
			s.must("SET", "k", "A", "PX", 60_000)
			s.must("EVALSHA", batchLua.sha(), 1, "k", "w", row.word, "W", row.patience, row.far)
			now, err := redis.Int64s(s.conn.Do("TIME"))
			if err != nil {
				t.Fatal(err)
			}
			note, _ := redis.String(s.conn.Do("GET", "redlock:waiter:w"))
			text, far, _ := strings.Cut(note, " ")
			till, _ := strconv.ParseInt(text, 10, 64)
			patience, _ := strconv.ParseInt(row.patience, 10, 64)
			at := now[0]*1000 + now[1]/1000
			if far != row.want || row.want != "" && (till > at+patience+1 || till < at) {
				t.Errorf("%s, a patience of %s: noted %q at %d, want that it may be silent for %q more", row.word, row.patience, note, at, row.want)
			}
		}
	})
}

// A claim need not note that its client runs when it joins the queue: its place says so. The note here is of an earlier wait.
func TestAClaimThatHasJoinedLatelyIsLive(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w", "x")
		for _, row := range []struct {
			member string
			ago    time.Duration
			word   string
			want   string // the token that has the key then
		}{
			{"w W 400", 100 * time.Millisecond, "release 400 - 0", "W"},
			{"w W 400", 100 * time.Millisecond, "undo", "W"},
			{"w W 400", 100 * time.Millisecond, "again 400 0 400", "W"},
			{"w W 400", 5 * time.Second, "release 400 - 0", "W"}, // it may be far, and unheard
			{"w W 400", time.Second, "undo", "W"},
			{"w W 400", time.Second, "again 400 0 400", "X"},
			{"w W 400", 6 * time.Second, "release 400 - 0", "X"},
			{"w W 400", 6 * time.Second, "undo", "X"},
			{"w W 400", -time.Second, "release 400 - 0", "X"}, // it waits behind those that come later, since some time
			{"w W 400p", time.Minute, "release 400 - 0", ""},  // it has no subscription, and notes nothing
			{"w W 400p", time.Minute, "undo", ""},
			{"w W 400p", time.Minute, "again 400 0 400", "W"},
		} {
			s.reset()
			s.silence("w")
			now, err := redis.Int64s(s.must("TIME"), nil)
			if err != nil {
				t.Fatal(err)
			}
			joined := now[0]*1_000_000 + now[1] - row.ago.Microseconds()
			s.must("ZADD", "redlock:queue:k", fmt.Sprint(joined), row.member, fmt.Sprint(joined+1), "x X 400")
			s.must("SET", "redlock:waiter:x", "99999999999999 0")
			if !strings.HasPrefix(row.word, "again") {
				s.must("SET", "k", "C", "PX", 60_000)
			}
			s.must("EVALSHA", batchLua.sha(), 1, "k", "c", row.word, "C")
			if got, _ := redis.String(s.conn.Do("GET", "k")); got != row.want {
				t.Errorf("%s has joined %v ago, %s: the key holds %q, want %q", row.member, row.ago, row.word, got, row.want)
			}
		}
	})
}

// However many members of queues are gone or silent, and however many keys a call has, it looks through few of them. A
// claim that polls gets a free lock all the same.
func TestACallLooksThroughFewMembersOfQueues(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		const keys, members = 128, 1000
		for _, row := range []struct {
			name, word string
			silent     bool
			taken      bool // the lock, by the client whose command it is
		}{
			{"releases, all are gone", "release 0", false, false},
			{"releases to a token, all are gone", "release 0 =no-such-token", false, false},
			{"polls, all are gone", "again 60000 0 60000", false, true},
			{"polls, all are silent", "again 60000 0 60000", true, true},
		} {
			s := newQueueScene(t, dial, "c", "w")
			s.reset()
			s.silence("w")
			args := []any{batchLua.sha(), keys}
			for i := range keys {
				args = append(args, fmt.Sprint("k", i))
			}
			args = append(args, "c")
			for i := range keys {
				queue := []any{fmt.Sprint("redlock:queue:k", i)}
				for j := range members {
					member := fmt.Sprintf("gone-%d G%d 400", j, j)
					if row.silent {
						member = fmt.Sprintf("w G%d 400", j)
					}
					queue = append(queue, j+1, member)
				}
				s.must("ZADD", queue...)
				args = append(args, row.word, "C")
			}
			cards := func() (n int) {
				for i := range keys {
					n += int(s.must("ZCARD", fmt.Sprint("redlock:queue:k", i)).(int64))
				}
				return n
			}
			s.must("EVALSHA", append(args, "520", "0")...)
			if n := keys*members - cards(); n > 1200 {
				t.Errorf("%s: %d members were looked through, want 1200 at most", row.name, n)
			}
			for i := range keys {
				got, _ := redis.String(s.conn.Do("GET", fmt.Sprint("k", i)))
				if (got == "C") != row.taken {
					t.Errorf("%s: key %d holds %q; taken: want %v", row.name, i, got, row.taken)
					break
				}
			}
		}
	})
}

// A release to a token looks for it among the first members of a queue. Those count for the call, too.
func TestACallLooksForFewTokens(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		const keys, members = 16, 256
		s := newQueueScene(t, dial, "w")
		s.reset()
		args := []any{batchLua.sha(), keys}
		for i := range keys {
			args = append(args, fmt.Sprint("k", i))
		}
		args = append(args, "c")
		for i := range keys {
			s.must("SET", fmt.Sprint("k", i), "C", "PX", 60_000)
			queue := []any{fmt.Sprint("redlock:queue:k", i)}
			for j := range members {
				queue = append(queue, j+1, fmt.Sprintf("w G%d 400", j))
			}
			s.must("ZADD", queue...)
			args = append(args, "release 0 =NOT-THERE", "C")
		}
		answers, err := redis.Ints(s.conn.Do("EVALSHA", args...))
		if err != nil {
			t.Fatal(err)
		}
		passed := 0
		for _, n := range answers {
			if n == 2 {
				passed++
			}
		}
		if passed == 0 || passed > 4 {
			t.Errorf("%d locks were passed on, want 1 to 4: after four queues of %d members the call looks no further", passed, members)
		}
		stats, err := redis.String(s.conn.Do("INFO", "commandstats"))
		if err != nil {
			t.Fatal(err)
		}
		var looks int
		if text := InfoField(stats, "cmdstat_zrange"); text != "" { // miniredis does not count
			if _, err := fmt.Sscanf(text, "calls=%d,", &looks); err != nil {
				t.Fatal(err)
			}
		}
		if looks > 16 {
			t.Errorf("the call looks at queues %d times, want 16 times at most", looks)
		}
	})
}

// What a call does not look at counts as live.
func TestANewClientDoesNotOvertakeThoseThatACallDoesNotLookAt(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial, "w")
		s.reset()
		queue := []any{"redlock:queue:j"}
		for i := range 1200 {
			queue = append(queue, i+1, fmt.Sprintf("gone G%d 400", i))
		}
		s.must("ZADD", queue...)
		s.must("ZADD", "redlock:queue:k", 1, "w W 400")
		answers, err := redis.Ints(s.must("EVALSHA", batchLua.sha(), 2, "j", "k", "c", "register 60000 - 0", "C", "register 60000 - 0", "C"), nil)
		if err != nil || !slices.Equal(answers, []int{-1, -1}) {
			t.Errorf("answered %v (%v), want that it waits for both", answers, err)
		}
		if n, _ := redis.Int(s.must("EXISTS", "j", "k"), nil); n != 0 {
			t.Errorf("%d keys were set", n)
		}
	})
}

// The readers that have ended stay in their queue until a release looks for them. The releases of one call look through
// few of them.
func TestACallLooksThroughFewReaders(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		const keys, readers = 16, 200
		s := newQueueScene(t, dial, "c")
		s.reset()
		args := []any{batchLua.sha(), keys}
		for i := range keys {
			args = append(args, fmt.Sprint("k", i))
		}
		args = append(args, "c")
		for i := range keys {
			queue := []any{fmt.Sprint("redlock:rqueue:k", i)}
			for j := range readers {
				queue = append(queue, 20, fmt.Sprintf("gone-%d G%d 400", j, j))
			}
			s.must("ZADD", queue...)
			s.must("SET", fmt.Sprint("k", i), "C")
			args = append(args, "release 0", "C")
		}
		s.must("EVALSHA", append(args, "520", "0")...)
		left := 0
		for i := range keys {
			left += int(s.must("ZCARD", fmt.Sprint("redlock:rqueue:k", i)).(int64))
			if n := s.must("EXISTS", fmt.Sprint("k", i)).(int64); n != 0 {
				t.Errorf("key %d was not released", i)
			}
		}
		if n := keys*readers - left; n != 1000 {
			t.Errorf("%d readers were looked through, want 1000", n)
		}
	})
}
