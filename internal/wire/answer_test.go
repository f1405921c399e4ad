package wire

import (
	"errors"
	"fmt"
	"math"
	"testing"
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
		if a, ok := Again.decode(row.value, false); ok != (row.value < 0) || ok && (a.Outcome != Taken || a.Left != want) {
			t.Errorf("an acquisition answered by %d: %+v, %t, want %v left", row.value, a, ok, want)
		}
	}
}

// Each command has its own valid answers. Any other answer ends the connection.
func TestAnAnswerThatItsCommandCannotGiveIsAnError(t *testing.T) {
	plain, fenced := claimOf("a"), claimWith(ClaimOf{Fence: Proposal{Number: 7}})
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
		{Renew, plain, []any{number(2), number(1), number(0), number(-1)}, []any{number(3), number(-2), number(most), number(least), pair(number(1), number(5)), nil}},
		{Release, plain, []any{number(2), number(1), number(0), number(-1)}, []any{number(3), number(-2), number(most), nil, []byte("1")}},
		{Undo, plain, []any{number(1), number(0), number(-1)}, []any{number(3), number(least)}},
	} {
		it := &Command{Kind: row.kind, Claim: row.claim}
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
	full := errors.New("full")
	c := claimWith(ClaimOf{Fence: Proposal{Number: 1000, Now: 1000, Most: 5000}})
	queued := claimWith(ClaimOf{Fence: Proposal{Number: 1000, Now: 1000, Most: 5000}, Grant: time.Second, RegisterTTL: time.Second})
	unbounded := claimWith(ClaimOf{Fence: Proposal{Number: 1000}})
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
		{"no limit for a grant, which comes much later", queued, Again, Answer{Outcome: Granted, Fence: math.MaxInt64}, Answer{Outcome: Granted, Fence: math.MaxInt64}, ""},
		{"an error", c, Set, Answer{Err: full}, Answer{Err: full}, full.Error()},
	} {
		got := row.claim.Judged(row.kind, row.in)
		if got.Outcome != row.want.Outcome || got.Left != row.want.Left || got.Fence != row.want.Fence || (got.Err == nil) != (row.err == "") || got.Err != nil && got.Err.Error() != row.err {
			t.Errorf("%s: %+v, want %+v %s", row.name, got, row.want, row.err)
		}
		if e := (*AheadError)(nil); row.err != "" && row.in.Err == nil && !errors.As(got.Err, &e) {
			t.Errorf("%s: %T, want an AheadError", row.name, got.Err)
		}
	}
}

// grantableCommand returns a poll of a claim that may be granted.
func grantableCommand(fenced bool) *Command {
	of := ClaimOf{Grant: time.Second, RegisterTTL: time.Second}
	if fenced {
		of.Fence.Number = 5
	}
	return &Command{Kind: Again, Claim: claimWith(of), Listening: true}
}

func TestAnAnswerToAClaimIsChecked(t *testing.T) {
	list := func(members ...any) []any { return members }
	standing := []byte("other")
	year := int64(365 * 24 * time.Hour / time.Millisecond)
	granted, set := Answer{Outcome: Granted}, Answer{Outcome: Granted, Fence: 7}
	refused := Answer{Outcome: Taken, Left: 3 * time.Second, Standing: "other"}
	unknown := Answer{Outcome: Taken, Left: Unknown}
	bad := (*Answer)(nil)
	for _, row := range []struct {
		name          string
		reply         any
		plain, fenced *Answer // nil: the reply is of the wrong shape
	}{
		{"1", int64(1), &granted, bad},
		{"0", int64(0), bad, bad},
		{"2", int64(2), bad, bad},
		{"-1", int64(-1), bad, bad},
		{"nil", nil, bad, bad},
		{"text", []byte("1"), bad, bad},
		{"a status", "OK", bad, bad},
		{"no list", list(), bad, bad},
		{"a pair", list(int64(1), int64(7)), bad, bad},
		{"a list of four", list(int64(1), int64(7), []byte{}, int64(0)), bad, bad},
		{"set just now", list(int64(1), int64(7), []byte{}, int64(0), int64(0)), &set, &set},
		{"set just now, and not in the queue", list(int64(1), int64(7), []byte{}, int64(1), int64(0)), &Answer{Outcome: Granted, Fence: 7, New: true}, &Answer{Outcome: Granted, Fence: 7, New: true}},
		{"set without a fence", list(int64(1), int64(0), []byte{}, int64(1), int64(0)), &Answer{Outcome: Granted, New: true}, bad},
		{"its own for 3 s", list(int64(3002), int64(7), []byte{}, int64(0), int64(0)), &Answer{Outcome: Granted, Fence: 7, Holds: 3 * time.Second}, &Answer{Outcome: Granted, Fence: 7, Holds: 3 * time.Second}},
		{"its own for no time", list(int64(2), int64(7), []byte{}, int64(0), int64(0)), &Answer{Outcome: Granted, Fence: 7, Holds: 1}, &Answer{Outcome: Granted, Fence: 7, Holds: 1}},
		{"its own for 11 years", list(11*year, int64(7), []byte{}, int64(0), int64(0)), bad, bad},
		{"its own for ever", list(int64(math.MaxInt64), int64(7), []byte{}, int64(0), int64(0)), bad, bad},
		{"refused", list(int64(-3002), int64(0), standing, int64(0), int64(0)), &refused, &refused},
		{"refused, and a fence", list(int64(-3002), int64(9), standing, int64(1), int64(0)), &Answer{Outcome: Taken, Left: 3 * time.Second, Standing: "other", Fence: 9, New: true}, &Answer{Outcome: Taken, Left: 3 * time.Second, Standing: "other", Fence: 9, New: true}},
		{"refused, and nothing known", list(int64(-1), int64(0), []byte{}, int64(0), int64(0)), &unknown, &unknown},
		{"refused for 11 years", list(-11*year, int64(0), []byte{}, int64(0), int64(0)), &unknown, &unknown},
		{"refused for ever", list(int64(math.MinInt64), int64(0), []byte{}, int64(0), int64(0)), &unknown, &unknown},
		{"the longest standing", list(int64(-1), int64(0), make([]byte, standingMost), int64(0), int64(0)), &Answer{Outcome: Taken, Left: Unknown, Odd: true, Standing: string(make([]byte, standingMost))}, &Answer{Outcome: Taken, Left: Unknown, Odd: true, Standing: string(make([]byte, standingMost))}},
		{"a key that does not expire, to a claim that is near", list(int64(-1), int64(0), []byte("data"), int64(0), int64(2)), &Answer{Outcome: Taken, Left: Unknown, Odd: true, Standing: "data", Ahead: 2}, &Answer{Outcome: Taken, Left: Unknown, Odd: true, Standing: "data", Ahead: 2}},
		{"the same to one that is far", list(int64(-1), int64(0), []byte("data"), int64(0), int64(3)), &Answer{Outcome: Taken, Left: Unknown, Standing: "data", Ahead: 3}, &Answer{Outcome: Taken, Left: Unknown, Standing: "data", Ahead: 3}},
		{"a standing that is too long", list(int64(-1), int64(0), make([]byte, standingMost+1), int64(0), int64(0)), bad, bad},
		{"a standing that is a number", list(int64(-1), int64(0), int64(5), int64(0), int64(0)), bad, bad},
		{"a standing that is nil", list(int64(-1), int64(0), nil, int64(0), int64(0)), bad, bad},
		{"a number 0", list(int64(0), int64(0), []byte{}, int64(0), int64(0)), bad, bad},
		{"a number that is text", list([]byte("1"), int64(7), []byte{}, int64(0), int64(0)), bad, bad},
		{"a fence below 0", list(int64(1), int64(-7), []byte{}, int64(0), int64(0)), bad, bad},
		{"a fence that is text", list(int64(1), []byte("7"), []byte{}, int64(0), int64(0)), bad, bad},
		{"new is 2", list(int64(1), int64(7), []byte{}, int64(2), int64(0)), bad, bad},
		{"new is -1", list(int64(1), int64(7), []byte{}, int64(-1), int64(0)), bad, bad},
		{"new is nil", list(int64(1), int64(7), []byte{}, nil, int64(0)), bad, bad},
		{"a list in the list", list(list(int64(1)), int64(7), []byte{}, int64(0)), bad, bad},
		{"a place", list(int64(-1), int64(0), []byte{}, int64(0), int64(7)), &Answer{Outcome: Taken, Left: Unknown, Ahead: 7}, &Answer{Outcome: Taken, Left: Unknown, Ahead: 7}},
		{"a huge place", list(int64(-1), int64(0), []byte{}, int64(0), int64(math.MaxInt64)), &Answer{Outcome: Taken, Left: Unknown, Ahead: 1 << 20}, &Answer{Outcome: Taken, Left: Unknown, Ahead: 1 << 20}},
		{"a place below 0", list(int64(-1), int64(0), []byte{}, int64(0), int64(-1)), bad, bad},
		{"a place that is text", list(int64(-1), int64(0), []byte{}, int64(0), []byte("1")), bad, bad},
		{"a list of six", list(int64(-1), int64(0), []byte{}, int64(0), int64(0), int64(0)), bad, bad},
	} {
		for _, fenced := range []bool{false, true} {
			want := row.plain
			if fenced {
				want = row.fenced
			}
			got, ok := Decode(grantableCommand(fenced), row.reply)
			if ok != (want != nil) || ok && fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", *want) {
				t.Errorf("%s, fenced %t: decoded as %+v (%t), want %+v", row.name, fenced, got, ok, want)
			}
		}
	}
	if got, ok := Decode(grantableCommand(true), redis.Error("ERR \x1bno")); !ok || got.Err == nil || got.Err.Error() != "ERR ?no" {
		t.Errorf("an error is decoded as %+v (%t)", got, ok)
	}
}

// claimOf returns a claim on one or several keys.
func claimOf(keys ...string) *Claim {
	terms := NewTerms(keys[0], time.Hour)
	if len(keys) > 1 {
		terms = NewSetTerms(keys, time.Hour)
	}
	c := NewClaim(&terms, ClaimOf{Token: "T", Waited: NoQueue})
	return &c
}

// claimWith returns a claim on one key.
func claimWith(of ClaimOf) *Claim {
	terms := NewTerms("k", time.Hour)
	of.Token = "T"
	c := NewClaim(&terms, of)
	return &c
}
