package master

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
)

func TestLeftIsUnknownOutOfRange(t *testing.T) {
	const most = int64(10 * 365 * 24 * time.Hour / time.Millisecond)
	for _, row := range []struct {
		value int64
		left  time.Duration
		known bool
	}{
		{0, 0, false},
		{-1, 0, false},
		{-2, 0, true},
		{-3, time.Millisecond, true},
		{-10_002, 10 * time.Second, true},
		{-2 - most, time.Duration(most) * time.Millisecond, true},
		{-3 - most, 0, false},
		{-9_000_000_000_000, 0, false},
		{-9_223_372_036_856, 0, false}, // in ns it is negative
		{-9_000_000_000_000_000_000, 0, false},
		{math.MinInt64 + 1, 0, false},
		{math.MinInt64, 0, false},
		{math.MaxInt64, 0, false},
	} {
		want := Unknown
		if row.known {
			want = row.left
		}
		if a, ok := Again.decode(row.value); ok != (row.value < 0) || ok && (a.Outcome != Taken || a.Left != want) {
			t.Errorf("an acquisition answered by %d: %+v, %t, want %v left", row.value, a, ok, want)
		}
	}
}

// Each command has its own valid answers. Any other answer ends the connection.
func TestAnAnswerThatItsCommandCannotGiveIsAnError(t *testing.T) {
	plain, fenced := claimOf("a"), claimOf("a")
	fenced.Propose(7)
	number := func(n int64) any { return n }
	pair := func(a, b any) any { return []any{a, b} }
	const least, most = int64(math.MinInt64), int64(math.MaxInt64)
	for _, row := range []struct {
		kind  Kind
		claim *Claim
		good  []any
		bad   []any
	}{
		{Again, plain, []any{number(1), number(-1), number(-2), number(-9002), number(least)},
			[]any{number(0), number(2), number(most), pair(number(1), number(5)), nil, "OK", []byte("1"), []any{}}},
		{Set, fenced, []any{pair(number(1), number(5)), pair(number(-1), number(0)), pair(number(-9002), number(most))},
			[]any{number(1), number(-9002), pair(number(1), number(0)), pair(number(1), number(-5)), pair(number(2), number(5)), pair(number(1), nil),
				pair(number(1), "5"), pair([]byte("1"), number(5)), pair(nil, nil), []any{number(1)}, []any{number(1), number(5), number(5)},
				pair(pair(number(1), number(5)), number(5)), []any{}, nil, "OK"}},
		{Register, fenced, []any{pair(number(1), number(5))}, []any{number(1), pair(number(0), number(5))}},
		{Heal, fenced, []any{number(1), number(0)}, []any{number(2), number(-1), number(-2), pair(number(1), number(5))}},
		{Commit, fenced, []any{pair(number(1), number(5)), pair(number(0), number(0)), pair(number(-1), number(0)), pair(number(-2), number(9))},
			[]any{number(1), number(0), pair(number(2), number(5)), pair(number(-3), number(5)), pair(number(-2), number(-9))}},
		{Renew, plain, []any{number(1), number(0), number(-1)}, []any{number(2), number(-2), number(most), number(least), pair(number(1), number(5)), nil}},
		{Release, plain, []any{number(2), number(1), number(0), number(-1)}, []any{number(3), number(-2), number(most), nil, []byte("1")}},
		{Undo, plain, []any{number(1), number(0), number(-1)}, []any{number(3), number(least)}},
		{Quit, plain, []any{number(1), number(0), number(-1)}, []any{number(3), number(least)}},
		{Wake, plain, []any{number(2), number(1), number(0)}, []any{number(3), number(-2)}},
	} {
		it := &item{kind: row.kind, claim: row.claim}
		for _, reply := range row.good {
			if a, ok := decodeScripted(it, reply); !ok || a.Err != nil {
				t.Errorf("%v, fenced: %t: %v is refused, want it to be an answer", row.kind, row.claim.fenced(), reply)
			}
		}
		for _, reply := range row.bad {
			if a, ok := decodeScripted(it, reply); ok {
				t.Errorf("%v, fenced: %t: %v is the answer %+v, want none", row.kind, row.claim.fenced(), reply, a)
			}
		}
		if a, ok := decodeScripted(it, redis.Error("OOM")); !ok || a.Err == nil {
			t.Errorf("%v: an error is the answer %+v, %t, want the error", row.kind, a, ok)
		}
	}
}

func TestAFenceThatIsTooFarAheadIsJudged(t *testing.T) {
	c := claimOf("a")
	c.Propose(1000)
	c.Expect(1000, 5000)
	unbounded := claimOf("a")
	unbounded.Propose(1000)
	ahead := func(by time.Duration) string {
		return fmt.Sprint("its fence for this name is ", by, " ahead of our clock")
	}
	for _, row := range []struct {
		name  string
		claim *Claim
		kind  Kind
		in    Answer
		want  Answer
		err   string
	}{
		{"a grant in range", c, Set, Answer{Outcome: Granted, Fence: 5000}, Answer{Outcome: Granted, Fence: 5000}, ""},
		{"a grant out of range", c, Set, Answer{Outcome: Granted, Fence: 5001}, Answer{}, ahead(time.Second)},
		{"a grant beyond counting", c, Again, Answer{Outcome: Granted, Fence: math.MaxInt64}, Answer{}, ahead((math.MaxInt64 / FenceTick * FenceTick).Round(time.Millisecond))},
		{"a refusal out of range", c, Again, Answer{Outcome: Taken, Left: 9 * time.Second, Fence: 5001}, Answer{Outcome: Taken, Left: 9 * time.Second}, ""},
		{"a refusal in range", c, Again, Answer{Outcome: Taken, Left: 9 * time.Second, Fence: 5000}, Answer{Outcome: Taken, Left: 9 * time.Second, Fence: 5000}, ""},
		{"overtaken in range", c, Commit, Answer{Outcome: Overtaken, Fence: 5000}, Answer{Outcome: Overtaken, Fence: 5000}, ""},
		{"overtaken out of range", c, Commit, Answer{Outcome: Overtaken, Fence: 5001}, Answer{}, ahead(time.Second)},
		{"no limit", unbounded, Set, Answer{Outcome: Granted, Fence: math.MaxInt64}, Answer{Outcome: Granted, Fence: math.MaxInt64}, ""},
		{"an error", c, Set, Answer{Err: errFull}, Answer{Err: errFull}, errFull.Error()},
	} {
		got := row.claim.judged(row.kind, row.in)
		if got.Outcome != row.want.Outcome || got.Left != row.want.Left || got.Fence != row.want.Fence || (got.Err == nil) != (row.err == "") || got.Err != nil && got.Err.Error() != row.err {
			t.Errorf("%s: %+v, want %+v %s", row.name, got, row.want, row.err)
		}
		if e := (*AheadError)(nil); row.err != "" && row.in.Err == nil && !errors.As(got.Err, &e) {
			t.Errorf("%s: %T, want an AheadError", row.name, got.Err)
		}
	}
}

// A grant that cannot be used has set the key, so its release is owed.
func TestAGrantThatIsTooFarAheadIsReleased(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		if cmd[0] == "EVALSHA" && conn == 1 {
			if strings.HasPrefix(cmd[5], "acquire") {
				return "*2\r\n:1\r\n:100000\r\n"
			}
			return hangUp
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		c := claimOf("a")
		c.Propose(1000)
		c.Expect(1000, 5000)
		var got answers
		m.Ask(Set, c, &got)
		synctest.Wait()
		if a := got.get(); len(a) != 1 || a[0].Err == nil {
			t.Fatalf("answered %v, want an error", a)
		}
		m.Ask(Undo, c, nil)
		time.Sleep(time.Second)
		if got := server.Seen("2: EVALSHA"); len(got) == 0 || !strings.Contains(got[0], "undo token of a") {
			t.Errorf("on the second connection: %q, want the release that was owed", got)
		}
	})
}
