package main

import (
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/history"
)

// waited returns a run of three clients with the first as asker, whose wait has others' entries every 100 ms, in turns of two clients.
func waited(turns int, faults ...ran) (*run, []history.Operation) {
	r := &run{log: &runLog{}, stalls: &stalls{}, ran: faults, ended: ms(60_000)}
	for range 3 {
		r.clients = append(r.clients, &client{job: job{setup: setup{Traits: traits{Renewed: true}}}})
	}
	ops := []history.Operation{{ID: "0.0.0.1", Name: "n", Asked: ms(1), Client: 0}}
	at := int64(100)
	for i := range turns {
		for range 2 { // in a row: one turn
			o := stay("x", 1, at, at+10, at+11, 0)
			o.Client = 1 + i%2
			ops = append(ops, o)
			at += 50
		}
	}
	ops[0].Entered = ms(at)
	return r, ops
}

func TestACallThatOthersOvertakeForTooLongIsAViolation(t *testing.T) {
	for _, test := range []struct {
		name   string
		turns  int
		faults []ran
		polls  bool
		want   int
	}{
		{"eighty turns", 80, nil, false, 0},
		{"one more", 81, nil, false, 1},
		{"a client that polls may wait for longer", 120, nil, true, 0},
		{"but not for ever", 121, nil, true, 1},
		{"its links had a fault", 110, []ran{{fault{client: 0}, history.Span{From: ms(500), To: ms(4000)}}}, false, 0},
		{"those of another one had", 110, []ran{{fault{client: 1}, history.Span{From: ms(500), To: ms(4000)}}}, false, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, ops := waited(test.turns, test.faults...)
			r.clients[0].job.Traits.Polls = test.polls
			found := r.starved(r.waits(ops))
			if len(found) != test.want {
				t.Errorf("violations: %v, want %d", found, test.want)
			}
		})
	}
}

func TestTheHistoryOfAWaitHasTurnsAndFaults(t *testing.T) {
	k := &kind{name: "late"}
	r, ops := waited(2, ran{fault{kind: k, client: 0, at: time.Second}, history.Span{From: ms(120), To: ms(220)}})
	var b strings.Builder
	r.writeWaits(&b, r.waits(ops)[:1], ops)
	for _, want := range []string{"waited for \"n\" from 0.001 to 0.300", "fault until 0.220", "had \"n\" until 0.111", "1 turns of others"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the history is\n%swant %q", b.String(), want)
		}
	}
}
