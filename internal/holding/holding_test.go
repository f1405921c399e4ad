package holding

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/wire"
)

const s = time.Second

// has returns the look of a master with a token.
func has(token string, left time.Duration) wire.Look {
	return wire.Look{Holder: wire.Holder{Token: token, Left: left}}
}

// queue returns the look of a master whose queue has clients, each as "id seconds".
func queue(clients ...string) wire.Look {
	var look wire.Look
	for _, c := range clients {
		var w wire.Waiter
		var seconds int
		fmt.Sscanf(c, "%s %d", &w.ID, &seconds)
		w.For = time.Duration(seconds) * s
		look.Waiters = append(look.Waiters, w)
	}
	look.Waiting = len(clients)
	return look
}

func TestTheTokenOnTheMostMastersCounts(t *testing.T) {
	for _, row := range []struct {
		name  string
		n     int
		looks []wire.Look
		want  string // token, masters, left; with a star if it is held
	}{
		{"free", 5, make([]wire.Look, 5), " 0 0s"},
		{"nobody answers", 5, nil, " 0 0s"},
		{"held", 5, []wire.Look{has("a", 9*s), has("a", 8*s), has("a", 7*s), has("a", 6*s), has("a", 5*s)}, "a 5 7s*"},
		{"held by a bare quorum", 5, []wire.Look{has("b", 9*s), has("a", 8*s), has("a", 6*s), has("a", 7*s)}, "a 3 6s*"},
		{"less than a quorum of all", 5, []wire.Look{has("a", 9*s), has("a", 8*s)}, "a 2 8s"},
		{"a split vote", 3, []wire.Look{has("b", 9*s), has("a", 8*s), {}}, "a 1 8s"},
		{"a key for ever", 3, []wire.Look{has("a", 9*s), has("a", wire.Forever), has("a", wire.Forever)}, "a 3 -1ns*"},
		{"a key for ever at one master", 3, []wire.Look{has("a", 9*s), has("a", 8*s), has("a", wire.Forever)}, "a 3 9s*"},
		{"of two masters one is no quorum", 2, []wire.Look{has("a", 9*s), {}}, "a 1 9s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := Of(row.looks, row.n)
			got := fmt.Sprint(h.Token, " ", h.Masters, " ", h.Left)
			if h.Held() {
				got += "*"
			}
			if got != row.want {
				t.Errorf("Of = %q, want %q", got, row.want)
			}
		})
	}
}

func TestTheFenceIsThatOfTheHolder(t *testing.T) {
	looks := []wire.Look{has("a", s), has("a", s), has("b", s)}
	looks[0].Fence, looks[1].Fence, looks[2].Fence = 7, 8, 99
	if h := Of(looks, 3); h.Fence != 8<<wire.FenceBits {
		t.Errorf("Fence = %d, want the holder's, %d", h.Fence, 8<<wire.FenceBits)
	}
	if h := Of([]wire.Look{{Fence: 7}, {Fence: 9}, {}}, 3); h.Fence != 9<<wire.FenceBits {
		t.Errorf("Fence of a free lock = %d, want the last one, %d", h.Fence, 9<<wire.FenceBits)
	}
}

func TestClientsThatMayStandInAQuorumOfQueuesWait(t *testing.T) {
	for _, row := range []struct {
		name  string
		n     int
		looks []wire.Look
		want  string
	}{
		{"nobody", 3, []wire.Look{queue(), queue(), queue()}, "0"},
		{"the longest first, by the longest", 3, []wire.Look{queue("a 1", "b 2"), queue("b 2", "a 3"), queue("b 2")}, "2 a/3s b/2s"},
		{"one queue of three has it", 3, []wire.Look{queue("a 1", "left 9"), queue("a 1"), queue("a 1")}, "1 a/1s"},
		{"the third does not answer", 3, []wire.Look{queue("a 1", "b 9"), queue("a 1")}, "2 b/9s a/1s"},
		{"two of five do not answer", 5, []wire.Look{queue("a 1"), queue(), queue()}, "1 a/1s"},
		{"more than are listed", 3, []wire.Look{{Queue: wire.Queue{Waiting: 400}}, {Queue: wire.Queue{Waiting: 300}}, {}}, "400"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := waiters(Of(row.looks, row.n)); got != row.want {
				t.Errorf("Of = %q, want %q", got, row.want)
			}
		})
	}
}

func TestClientsThatNoMasterHasASubscriptionOfAreDropped(t *testing.T) {
	looks := []wire.Look{queue("a 3", "b 2", "c 1"), queue("a 3", "b 2", "c 1"), queue("a 3", "b 2", "c 1")}
	for _, row := range []struct {
		name   string
		census []map[string]bool
		want   string
	}{
		{"no master says", nil, "3 a/3s b/2s c/1s"},
		{"one is gone", []map[string]bool{{"a": true}, {"c": true}}, "2 a/3s c/1s"},
		{"all are gone", []map[string]bool{{}}, "0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := Of(looks, 3)
			h.Drop(row.census)
			if got := waiters(h); got != row.want {
				t.Errorf("Drop leaves %q, want %q", got, row.want)
			}
		})
	}
}

func TestReadersThatMayHaveAQuorumAreNamedByTheirOwners(t *testing.T) {
	const id = "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT"
	looks := []wire.Look{{Readers: []string{id + "@b", "none", id + "@few"}}, {Readers: []string{"none", id + "@b"}}, {Readers: []string{id + "@a"}}}
	if got, want := Of(looks, 3).Readers, []string{"", "b"}; !slices.Equal(got, want) {
		t.Errorf("Readers = %q, want %q", got, want)
	}
	if got, want := Of(looks[:2], 3).Readers, []string{"", "b", "few"}; !slices.Equal(got, want) {
		t.Errorf("with a master missing: Readers = %q, want %q", got, want)
	}
}

// waiters renders who waits.
func waiters(h Holding) string {
	words := []string{fmt.Sprint(h.Waiting)}
	for _, w := range h.Waiters {
		words = append(words, fmt.Sprintf("%s/%v", w.ID, w.For))
	}
	return strings.Join(words, " ")
}
