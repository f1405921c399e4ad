package wire

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// texts returns a list of strings as redigo returns it.
func texts(all ...string) []any {
	list := make([]any, len(all))
	for i, s := range all {
		list[i] = []byte(s)
	}
	return list
}

// lookReplies returns good replies to NewLook's query, of which some are replaced.
func lookReplies(replace map[int]any) []any {
	all := []any{[]byte("token"), int64(9000), []byte("17"), texts("1000", "500000"), int64(2), []byte(membersLua.sha().(string)), texts("a", "998500000", "b", "999500000"), texts(), int64(0), texts()}
	for i, reply := range replace {
		all[i] = reply
	}
	return all
}

func TestDecodeLookReturnsWhatTheRepliesSay(t *testing.T) {
	const good = "token 9s 17 2 [{a 2s} {b 1s}]"
	for _, row := range []struct {
		name    string
		replace map[int]any
		want    string // or a part of the error
	}{
		{"all is well", nil, good},
		{"no key", map[int]any{0: []byte(""), 1: int64(-2)}, " 0s 17 2 [{a 2s} {b 1s}]"},
		{"a key for ever", map[int]any{1: int64(-1)}, "token -1ns 17 2 [{a 2s} {b 1s}]"},
		{"a key beyond counting", map[int]any{1: int64(math.MaxInt64)}, "token -1ns 17 2 [{a 2s} {b 1s}]"},
		{"an odd time to live", map[int]any{1: "soon"}, "an unexpected reply"},
		{"the time to live is forbidden", map[int]any{1: redis.Error("NOPERM no")}, "NOPERM no"},
		{"the key is forbidden", map[int]any{0: redis.Error("NOPERM no")}, "NOPERM no"},
		{"a list", map[int]any{0: redis.Error("WRONGTYPE no string")}, ErrNotALock.Error()},
		{"a long text", map[int]any{0: []byte(strings.Repeat("x", tokenMost+1))}, ErrNotALock.Error()},
		{"nil for a key", map[int]any{0: nil}, "an unexpected reply"},
		{"a fence that is no number", map[int]any{2: []byte("1e9")}, "token 9s 0 2 [{a 2s} {b 1s}]"},
		{"a negative fence", map[int]any{2: []byte("-5")}, "token 9s 0 2 [{a 2s} {b 1s}]"},
		{"a fence of too many digits", map[int]any{2: []byte("9999999999999999")}, "token 9s 0 2 [{a 2s} {b 1s}]"},
		{"the fence is forbidden", map[int]any{2: redis.Error("NOPERM no")}, "token 9s 0 2 [{a 2s} {b 1s}]"},
		{"the queue is forbidden", map[int]any{4: redis.Error("NOPERM no"), 6: redis.Error("NOPERM no")}, "token 9s 17 0 []"},
		{"the queue is no set", map[int]any{4: redis.Error("WRONGTYPE no"), 6: redis.Error("WRONGTYPE no")}, "token 9s 17 0 []"},
		{"no clock", map[int]any{3: redis.Error("NOPERM no")}, "token 9s 17 0 []"},
		{"half a clock", map[int]any{3: texts("1000")}, "token 9s 17 0 []"},
		{"more than are listed", map[int]any{4: int64(1000)}, "token 9s 17 1000 [{a 2s} {b 1s}]"},
		{"an odd list", map[int]any{6: texts("a", "998500000", "b")}, "token 9s 17 1 [{a 2s}]"},
		{"scores that are no times", map[int]any{6: texts("v", "inf", "x", "nan", "y", "-inf", "z", "soon", "b", "999500000")}, "token 9s 17 1 [{b 1s}]"},
		{"readers wait", map[int]any{8: int64(2), 9: texts("a r", "999500000", "c", "998500000")}, "token 9s 17 4 [{a 2s} {b 1s} {a 1s reads} {c 2s reads}]"},
		{"more readers than are listed", map[int]any{8: int64(1000), 9: texts("c", "998500000")}, "token 9s 17 1002 [{a 2s} {b 1s} {c 2s reads}]"},
		{"the queue of the readers is forbidden", map[int]any{8: redis.Error("NOPERM no"), 9: redis.Error("NOPERM no")}, good},
		{"from the future", map[int]any{6: texts("a", "1e300")}, "token 9s 17 1 [{a 0s}]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			look, err := DecodeLook(lookReplies(row.replace))
			var waiters []string
			for _, w := range look.Waiters {
				reads := ""
				if w.Reads {
					reads = " reads"
				}
				waiters = append(waiters, fmt.Sprintf("{%s %v%s}", w.ID, w.For, reads))
			}
			got := fmt.Sprint(look.Token, " ", look.Left, " ", look.Fence, " ", look.Waiting, " ", waiters)
			if err != nil {
				got = err.Error()
			}
			if got != row.want {
				t.Errorf("DecodeLook = %q, want %q", got, row.want)
			}
		})
	}
	for _, replies := range [][]any{nil, {}, lookReplies(nil)[:6]} {
		if _, err := DecodeLook(replies); err == nil {
			t.Errorf("DecodeLook of %d replies = nil, want an error", len(replies))
		}
	}
	readers := texts("over r0", "1000500", "a r1", "1000501", "turn", "1e300", "b r2", "1000502", "c r3", "soon", "odd")
	if look, err := DecodeLook(lookReplies(map[int]any{0: []byte(ReadersMarker), 7: readers})); err != nil || fmt.Sprint(look.Readers) != "[a b]" {
		t.Errorf("the readers are %q, %v; want a and b, who stand", look.Readers, err)
	}
	look, _ := DecodeLook(lookReplies(map[int]any{6: texts("a", "-1e300")}))
	if len(look.Waiters) != 1 || look.Waiters[0].For < time.Hour {
		t.Errorf("a client that has waited for ever: %v", look.Waiters)
	}
}

func TestDecodeCensusReturnsWhatTheReplySays(t *testing.T) {
	got, ok := DecodeCensus([]any{[]any{[]byte("redlock:wake:a"), int64(1), []byte("redlock:wake:b"), int64(0)}})
	if !ok || len(got) != 1 || !got["a"] {
		t.Errorf("DecodeCensus = %v, %t, want that a listens", got, ok)
	}
	for _, replies := range [][]any{nil, {redis.Error("NOPERM no")}, {int64(1)}, {[]any{[]byte("a")}}, {[]any{int64(1), int64(1)}}} {
		if got, ok := DecodeCensus(replies); ok {
			t.Errorf("DecodeCensus of %v = %v, want that it does not say", replies, got)
		}
	}
}

func TestDecodeBreakReturnsWhatTheRepliesSay(t *testing.T) {
	for _, row := range []struct {
		replies []any
		want    string
	}{
		{[]any{"sha", int64(1)}, "[] granted <nil>"},
		{[]any{"sha", int64(2)}, "[] passed on <nil>"},
		{[]any{"sha", int64(0)}, "[] missing <nil>"},
		{[]any{"sha", int64(-1)}, "[] other token <nil>"},
		{[]any{"sha", []any{int64(1), []byte("r1 R1"), []byte("turn")}}, "[r1 R1 turn] granted <nil>"},
		{[]any{"sha", []any{int64(0)}}, "[] missing <nil>"},
		{[]any{redis.Error("NOPERM no"), redis.Error("NOSCRIPT")}, "[] failed SCRIPT LOAD: NOPERM no"},
		{[]any{"sha", redis.Error("NOPERM no")}, "[] failed NOPERM no"},
		{[]any{"sha", int64(3)}, "[] failed an unexpected reply"},
		{[]any{"sha", []any{}}, "[] failed an unexpected reply"},
		{[]any{"sha", []any{"1"}}, "[] failed an unexpected reply"},
		{[]any{"sha", []any{int64(1), int64(5)}}, "[] failed an unexpected reply"},
		{[]any{"sha", nil}, "[] failed an unexpected reply"},
		{[]any{"sha"}, "[] failed an unexpected reply"},
	} {
		ended, outcome, err := DecodeBreak(row.replies)
		if got := fmt.Sprint(ended, " ", outcome, " ", err); got != row.want {
			t.Errorf("DecodeBreak(%v) = %s, want %s", row.replies, got, row.want)
		}
	}
}
