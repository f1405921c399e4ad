package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/history"
)

func TestKeysThatAreLeftAreFound(t *testing.T) {
	h := history.New()
	for _, r := range []history.Record{
		{Kind: history.Asked, Op: "0.0.0.1", At: ms(0), Name: "a"},
		{Kind: history.Entered, Op: "0.0.0.1", At: ms(10), Token: "writer"},
		{Kind: history.Left, Op: "0.0.0.1", At: ms(20)},
		{Kind: history.Asked, Op: "0.0.0.2", At: ms(0), Name: "a"},
		{Kind: history.Entered, Op: "0.0.0.2", At: ms(10), Token: "writer~"},
		{Kind: history.Left, Op: "0.0.0.2", At: ms(20)},
		{Kind: history.Asked, Op: "0.0.1.1", At: ms(30), Name: "a", Side: asReader},
		{Kind: history.Entered, Op: "0.0.1.1", At: ms(40), Token: "reads"},
		{Kind: history.Left, Op: "0.0.1.1", At: ms(50)},
		{Kind: history.Asked, Op: "0.0.2.1", At: ms(60), Name: "a"}, // its client has died
		{Kind: history.Entered, Op: "0.0.2.1", At: ms(70), Token: "dead"},
		{Kind: history.Asked, Op: "2.0.0.1", At: ms(100), Name: "semaphore", How: byDo},
		{Kind: history.Entered, Op: "2.0.0.1", At: ms(200)},
		{Kind: history.Left, Op: "2.0.0.1", At: ms(3000)},
		{Kind: history.Asked, Op: "1.0.0.1", At: ms(100), Name: "b c"},
		{Kind: history.Refused, Op: "1.0.0.1", At: ms(3000)},
	} {
		h.Add(r)
	}
	for _, test := range []struct {
		name string
		seen sighting
		want int
	}{
		{"deleted in time", sighting{name: "a", token: "writer", first: ms(8), last: ms(600)}, 0},
		{"left by a writer", sighting{name: "a", token: "writer", first: ms(8), last: ms(700)}, 1},
		{"kept", sighting{name: "a", token: "writer~", first: ms(8), last: ms(1600)}, 0},
		{"left by a client that keeps", sighting{name: "a", token: "writer~", first: ms(8), last: ms(1700)}, 1},
		{"kept by readers", sighting{name: "a", token: "reads", reader: true, first: ms(38), last: ms(1600)}, 0},
		{"left by readers", sighting{name: "a", token: "reads", reader: true, first: ms(38), last: ms(1700)}, 1},
		{"held by the dead", sighting{name: "a", token: "dead", first: ms(60), last: ms(5000)}, 0},
		{"nobody's", sighting{name: "a", token: "unknown", first: ms(100), last: ms(800)}, 1},
		{"part of several names", sighting{name: "b", token: "part", first: ms(200), last: ms(3500)}, 0},
		{"left by a call for several names", sighting{name: "b", token: "part", first: ms(200), last: ms(3700)}, 1},
		{"held by Do of a semaphore", sighting{name: "semaphore", token: "unknown", first: ms(190), last: ms(3100)}, 0},
		{"left by Do of a semaphore", sighting{name: "semaphore", token: "unknown", first: ms(190), last: ms(3700)}, 1},
		{"while the machine stood still", sighting{name: "a", token: "unknown", first: ms(10_000), last: ms(11_500)}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &watch{stop: make(chan struct{}), seen: []sighting{test.seen}}
			still := &stalls{all: []history.Span{{From: ms(10_000), To: ms(11_000)}}}
			if all := w.end(h, still, time.Second, 600*time.Millisecond); len(all) != test.want {
				t.Errorf("violations = %v, want %d", all, test.want)
			}
		})
	}
}

func TestARevivedClaimIsNoKeyThatIsLeft(t *testing.T) {
	now := history.Now()
	ago := func(d time.Duration) int64 { return now - int64(d) }
	r := &run{history: history.New(), ran: []ran{
		{fault{kind: &kind{name: tailLost}, masters: []int{1}}, history.Span{From: ago(5 * time.Second), To: ago(4 * time.Second)}},
		{fault{kind: &kind{name: "restart-empty"}, masters: []int{2}}, history.Span{From: ago(5 * time.Second), To: ago(4 * time.Second)}},
	}}
	r.ttl = time.Second
	for i, o := range []struct {
		token               string
		asked, entered, end time.Duration
	}{
		{"revived", 6 * time.Second, 4900 * time.Millisecond, 4800 * time.Millisecond},
		{"revived~", 6 * time.Second, 4900 * time.Millisecond, 4800 * time.Millisecond},
		{"asked later", 4900 * time.Millisecond, 4800 * time.Millisecond, 4700 * time.Millisecond},
		{"over before", 7 * time.Second, 6 * time.Second, 5100 * time.Millisecond},
		{"just over", 6 * time.Second, 4900 * time.Millisecond, 500 * time.Millisecond},
	} {
		id := fmt.Sprintf("0.0.0.%d", i+1)
		r.history.Add(history.Record{Kind: history.Asked, Op: id, At: ago(o.asked), Name: "a"})
		r.history.Add(history.Record{Kind: history.Entered, Op: id, At: ago(o.entered), Token: o.token})
		r.history.Add(history.Record{Kind: history.Left, Op: id, At: ago(o.end)})
	}
	// Client 1 was waiting for b, and not for c, when master 1 lost the tail of its file. So was client 2, by another process.
	for _, o := range []struct {
		id, name, token string
		asked, end      time.Duration
	}{
		{"1.0.0.1", "b", "", 6 * time.Second, 4 * time.Second},
		{"1.0.0.2", "c", "won@host/1", 4900 * time.Millisecond, 4 * time.Second},
		{"1.1.0.3", "c", "", 6 * time.Second, 4 * time.Second},
		{"2.0.0.1", "c", "won@host/2", 6 * time.Second, 500 * time.Millisecond},
	} {
		r.history.Add(history.Record{Kind: history.Asked, Op: o.id, At: ago(o.asked), Name: o.name})
		if o.token == "" {
			r.history.Add(history.Record{Kind: history.Refused, Op: o.id, At: ago(o.end)})
			continue
		}
		r.history.Add(history.Record{Kind: history.Entered, Op: o.id, At: ago(o.end + 100*time.Millisecond), Token: o.token})
		r.history.Add(history.Record{Kind: history.Left, Op: o.id, At: ago(o.end)})
	}
	for _, test := range []struct {
		token  string
		master int
		want   bool
		name   string
	}{
		{"revived", 1, true, "a"},
		{"revived", 0, false, "a"},
		{"revived", 2, false, "a"}, // it lost all its memory, and so its queues
		{"revived~", 1, false, "a"},
		{"asked later", 1, false, "a"},
		{"over before", 1, false, "a"},
		{"just over", 1, false, "a"},
		{"unknown", 1, false, "a"},
		{"given up@host/1", 1, true, "b"},
		{"given up@host/1", 0, false, "b"},
		{"given up@host/1", 1, false, "c"}, // asked later, or by another process of the client
		{"given up@host/2", 1, false, "c"}, // just over
		{"given up@host/3", 1, false, "b"},
	} {
		if got := r.revived(test.master, test.name, test.token); got != test.want {
			t.Errorf("revived(%d, %q, %q) = %v, want %v", test.master, test.name, test.token, got, test.want)
		}
	}
}
