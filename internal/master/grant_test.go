package master

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/clock"
)

func TestAGrantIsReadFromItsMessage(t *testing.T) {
	for _, row := range []struct {
		text   string
		want   Grant
		record origin
	}{
		{"+ T run 5 0 k", Grant{Key: "k", Token: "T"}, origin{"run", 5}},
		{"+ T run -2 0 k", Grant{Key: "k", Token: "T"}, origin{"run", -2}},
		{"+ T@web-1/2 0123 2000000000000 123456789012345  a key \n", Grant{Key: " a key \n", Token: "T@web-1/2", Fence: 123456789012345}, origin{"0123", 2000000000000}},
	} {
		got, record, ok := parseGrant(row.text)
		if !ok || got != row.want || record != row.record {
			t.Errorf("parseGrant(%q) = %+v, %+v, %t, want %+v, %+v", row.text, got, record, ok, row.want, row.record)
		}
	}
}

func TestAMessageThatIsNoGrantIsNotTakenForOne(t *testing.T) {
	for _, text := range []string{
		"", "+", "+ ", "+     ", "T k", "+ k", "+ T run 5 0", "+ T run 5 0 ", "+  run 5 0 k", "++ T run 5 0 k", "- T run 5 0 k", " + T run 5 0 k",
		"+ T run x 0 k", "+ T run 5 x k", "+ T run  0 k", "+ T run 5  k", "+ T run 5 -1 k", "+ T run 5 1.5 k", "+ T run 5e3 0 k", "+ T run 0x5 0 k",
		"+ T run 5 1234567890123456 k", "+ T run 1234567890123456 0 k", "+ T run 99999999999999999999 0 k", "+ T run 5 99999999999999999999 k",
		"+ " + strings.Repeat("T", tokenMost+1) + " run 5 0 k",
	} {
		if got, record, ok := parseGrant(text); ok || got != (Grant{}) || record != (origin{}) {
			t.Errorf("parseGrant(%q) = %+v, %+v, %t, want it to be none", text, got, record, ok)
		}
	}
}

// FuzzMessage checks that a message is a grant, a wake-up or neither, and that what is read from it is within bounds.
func FuzzMessage(f *testing.F) {
	for _, text := range []string{
		"", "T k", "+ T run -2 0 k", "+ T run 5 123456789012345 a key", "+ T  5 0 k", "+ + + + + +", "+ T run +5 -0 k", "+ T run 5 0", "+\x00T run 5 0 k",
		"+ T run 007 00 k", "redlock:readers k", "+ T run 9223372036854775808 0 k", "+ \xff\xfe run 5 0 \x00",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, record, ok := parseGrant(text)
		if !ok {
			if g != (Grant{}) || record != (origin{}) {
				t.Errorf("parseGrant(%q) = %+v, %+v, although it is no grant", text, g, record)
			}
			return
		}
		if g.Key == "" || g.Token == "" || len(g.Token) > tokenMost || strings.Contains(g.Token+record.run, " ") || g.Sure || g.Mark != (clock.Reading{}) {
			t.Errorf("parseGrant(%q) = %+v, %+v", text, g, record)
		}
		if g.Fence < 0 || g.Fence >= 1e15 || record.left <= -1e15 || record.left >= 1e15 {
			t.Errorf("parseGrant(%q): the fence is %d and the record lives for %d ms, want less than 16 digits", text, g.Fence, record.left)
		}
		again := fmt.Sprintf("+ %s %s %d %d %s", g.Token, record.run, record.left, g.Fence, g.Key)
		if g2, record2, ok := parseGrant(again); !ok || g2 != g || record2 != record {
			t.Errorf("parseGrant(%q) = %+v, %+v, but parseGrant(%q) = %+v, %+v, %t", text, g, record, again, g2, record2, ok)
		}
		if token, _, ok := parseWakeUp(text); ok && token != "+" {
			t.Errorf("%q is a grant, and a wake-up about %q", text, token)
		}
	})
}

// grantableItem returns a poll of a claim that may be granted.
func grantableItem(fenced bool) *item {
	c := NewClaim("k", "T", time.Minute, 0)
	if fenced {
		c.Propose(5)
	}
	c.Queue(time.Second, time.Second)
	return &item{kind: Again, claim: c, listening: true}
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
		{"a list of five", list(int64(1), int64(7), []byte{}, int64(0), int64(0)), bad, bad},
		{"set just now", list(int64(1), int64(7), []byte{}, int64(0)), &set, &set},
		{"set just now, and not in the queue", list(int64(1), int64(7), []byte{}, int64(1)), &Answer{Outcome: Granted, Fence: 7, New: true}, &Answer{Outcome: Granted, Fence: 7, New: true}},
		{"set without a fence", list(int64(1), int64(0), []byte{}, int64(1)), &Answer{Outcome: Granted, New: true}, bad},
		{"its own for 3 s", list(int64(3002), int64(7), []byte{}, int64(0)), &Answer{Outcome: Granted, Fence: 7, Holds: 3 * time.Second}, &Answer{Outcome: Granted, Fence: 7, Holds: 3 * time.Second}},
		{"its own for no time", list(int64(2), int64(7), []byte{}, int64(0)), &Answer{Outcome: Granted, Fence: 7, Holds: 1}, &Answer{Outcome: Granted, Fence: 7, Holds: 1}},
		{"its own for 11 years", list(11*year, int64(7), []byte{}, int64(0)), bad, bad},
		{"its own for ever", list(int64(math.MaxInt64), int64(7), []byte{}, int64(0)), bad, bad},
		{"refused", list(int64(-3002), int64(0), standing, int64(0)), &refused, &refused},
		{"refused, and a fence", list(int64(-3002), int64(9), standing, int64(1)), &Answer{Outcome: Taken, Left: 3 * time.Second, Standing: "other", Fence: 9, New: true}, &Answer{Outcome: Taken, Left: 3 * time.Second, Standing: "other", Fence: 9, New: true}},
		{"refused, and nothing known", list(int64(-1), int64(0), []byte{}, int64(0)), &unknown, &unknown},
		{"refused for 11 years", list(-11*year, int64(0), []byte{}, int64(0)), &unknown, &unknown},
		{"refused for ever", list(int64(math.MinInt64), int64(0), []byte{}, int64(0)), &unknown, &unknown},
		{"a standing of 32 bytes", list(int64(-1), int64(0), make([]byte, 32), int64(0)), &Answer{Outcome: Taken, Left: Unknown, Standing: string(make([]byte, 32))}, &Answer{Outcome: Taken, Left: Unknown, Standing: string(make([]byte, 32))}},
		{"a standing of 33 bytes", list(int64(-1), int64(0), make([]byte, 33), int64(0)), bad, bad},
		{"a standing that is a number", list(int64(-1), int64(0), int64(5), int64(0)), bad, bad},
		{"a standing that is nil", list(int64(-1), int64(0), nil, int64(0)), bad, bad},
		{"a number 0", list(int64(0), int64(0), []byte{}, int64(0)), bad, bad},
		{"a number that is text", list([]byte("1"), int64(7), []byte{}, int64(0)), bad, bad},
		{"a fence below 0", list(int64(1), int64(-7), []byte{}, int64(0)), bad, bad},
		{"a fence that is text", list(int64(1), []byte("7"), []byte{}, int64(0)), bad, bad},
		{"new is 2", list(int64(1), int64(7), []byte{}, int64(2)), bad, bad},
		{"new is -1", list(int64(1), int64(7), []byte{}, int64(-1)), bad, bad},
		{"new is nil", list(int64(1), int64(7), []byte{}, nil), bad, bad},
		{"a list in the list", list(list(int64(1)), int64(7), []byte{}, int64(0)), bad, bad},
	} {
		for _, fenced := range []bool{false, true} {
			want := row.plain
			if fenced {
				want = row.fenced
			}
			got, ok := decode(grantableItem(fenced), row.reply)
			if ok != (want != nil) || ok && fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", *want) {
				t.Errorf("%s, fenced %t: decoded as %+v (%t), want %+v", row.name, fenced, got, ok, want)
			}
		}
	}
	if got, ok := decode(grantableItem(true), redis.Error("ERR \x1bno")); !ok || got.Err == nil || got.Err.Error() != "ERR ?no" {
		t.Errorf("an error is decoded as %+v (%t)", got, ok)
	}
}

// A marksScene counts moments. Each ping is sent at a moment of its own.
type marksScene struct {
	marks
	moment time.Time
}

func (s *marksScene) clock() clock.Reading {
	s.moment = s.moment.Add(time.Second)
	return clock.At(s.moment, s.moment, 0)
}

// at returns what the marks say, as the number of the ping; 0: SUBSCRIBE.
func (s *marksScene) at() int { return int(s.last.Time().Sub(time.Time{})/time.Second) - 1 }

func pong(argument any) []any { return []any{[]byte("pong"), argument} }

func TestAMarkIsThatOfTheLastPingThatWasAnswered(t *testing.T) {
	s := &marksScene{}
	s.begin(s.clock)
	for i := range 5 {
		if got := s.ping(s.clock); got != strconv.Itoa(i+1) {
			t.Fatalf("ping %d has the argument %q", i+1, got)
		}
	}
	for _, step := range []struct {
		name string
		pong []any
		want int
	}{
		{"no answer", nil, 0},
		{"an unknown number", pong([]byte("6")), 0},
		{"an earlier number", pong([]byte("0")), 0},
		{"a negative number", pong([]byte("-1")), 0},
		{"a number with a sign", pong([]byte("+2")), 0},
		{"no number", pong([]byte("")), 0},
		{"nil", pong(nil), 0},
		{"an integer", pong(int64(2)), 0},
		{"a list", pong([]any{}), 0},
		{"no argument", []any{[]byte("pong")}, 0},
		{"two arguments", append(pong([]byte("2")), []byte("3")), 0},
		{"the first", pong([]byte("1")), 1},
		{"the first again", pong([]byte("1")), 1},
		{"the third, without the second", pong([]byte("3")), 3},
		{"the second, too late", pong([]byte("2")), 3},
		{"the last", pong([]byte("5")), 5},
		{"the fourth, too late", pong([]byte("4")), 5},
	} {
		if s.pong(step.pong); s.at() != step.want {
			t.Errorf("%s: the mark is that of ping %d, want %d", step.name, s.at(), step.want)
		}
	}
	s.ping(s.clock)
	s.ping(s.clock)
	s.begin(s.clock) // another connection, eight moments after the first one
	if s.pong(pong([]byte("7"))); s.at() != 8 {
		t.Errorf("the mark is that of moment %d, want 8, that of the new subscription", s.at())
	}
}

func TestPingsThatAreNeverAnsweredAreForgotten(t *testing.T) {
	s := &marksScene{}
	s.begin(s.clock)
	const pings = 20 * unansweredMost
	for range pings {
		s.ping(s.clock)
	}
	if n, room := s.sent.len(), cap(s.sent.items); n > unansweredMost || room > 10*unansweredMost {
		t.Errorf("%d pings are kept, in room for %d, want %d at most", n, room, unansweredMost)
	}
	if s.pong(pong([]byte(strconv.Itoa(pings - unansweredMost)))); s.at() != 0 {
		t.Errorf("the mark is that of the forgotten ping %d", s.at())
	}
	if s.pong(pong([]byte(strconv.Itoa(pings)))); s.at() != pings {
		t.Errorf("the mark is that of ping %d, want the last", s.at())
	}
}
