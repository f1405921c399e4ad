package master

import (
	"strconv"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

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
	if n, room := s.sent.Len(), cap(s.sent.All()); n > unansweredMost || room > 10*unansweredMost {
		t.Errorf("%d pings are kept, in room for %d, want %d at most", n, room, unansweredMost)
	}
	if s.pong(pong([]byte(strconv.Itoa(pings - unansweredMost)))); s.at() != 0 {
		t.Errorf("the mark is that of the forgotten ping %d", s.at())
	}
	if s.pong(pong([]byte(strconv.Itoa(pings)))); s.at() != pings {
		t.Errorf("the mark is that of ping %d, want the last", s.at())
	}
}
