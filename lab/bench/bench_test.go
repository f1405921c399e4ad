package main

import (
	"context"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/programs"
	"github.com/redlock-go/redlock/lab/internal/child"
)

// TestMain lets the test's executable be the worker processes too.
func TestMain(m *testing.M) {
	child.Main("bench", work, func() error {
		quiet()
		os.Exit(m.Run())
		return nil
	})
}

// stubborn locks are stuck from the given lock on.
type stubborn struct{ left int }

func (s *stubborn) lock(ctx context.Context) error {
	if s.left--; s.left < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (s *stubborn) unlock() error { return errNotUnlocked }

func TestDriveAbandonsWhoIsStuck(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		d := drive([]mutex{&stubborn{left: 3}, &stubborn{left: 1}}, time.Millisecond, 50*time.Millisecond)
		if d.Stuck != 2 || len(d.Times) != 4 || d.Failed != 4 || d.First != errNotUnlocked.Error() {
			t.Errorf("drive = %+v, want 2 stuck, 4 times, 4 failed", d)
		}
	})
}

func TestEverybodyFollowsEverybodyAsOften(t *testing.T) {
	for _, players := range []int{2, 3} {
		follows := make(map[[2]int]int)
		for n := range 12 {
			order := lineup(players, n)
			for i := 1; i < players; i++ {
				follows[[2]int{order[i-1], order[i]}]++
			}
		}
		for pair, times := range follows {
			if want := 12 / players; times != want {
				t.Errorf("of %d, %d follows %d %d times in 12 turns, want %d", players, pair[1], pair[0], times, want)
			}
		}
		if want := players * (players - 1); len(follows) != want {
			t.Errorf("of %d, %d pairs follow each other, want %d", players, len(follows), want)
		}
	}
}

func TestSubjectsHaveNamesOfTheirOwn(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range subjects() {
		if seen[s.id] || subjectByID(s.id) == nil {
			t.Errorf("subject %q is there twice, or not found", s.id)
		}
		seen[s.id] = true
	}
	if !seen[reference] {
		t.Errorf("no subject %q, to which ratios refer", reference)
	}
}

func TestEachTargetIsOfAWorkload(t *testing.T) {
	r := &results{workloads: workloads()}
	for _, g := range targets() {
		if !r.ran(g.workload) {
			t.Errorf("no workload %q, of which %q is", g.workload, g.what)
		}
	}
	for _, p := range panels() {
		if !r.ran(p.workload) {
			t.Errorf("no workload %q, which the chart shows", p.workload)
		}
	}
}

func TestViolationsOfReadersAndWriters(t *testing.T) {
	for _, row := range []struct {
		name             string
		readers, writers []interval
		want             int
	}{
		{"readers together", []interval{{1, 5}, {2, 6}}, []interval{{6, 8}}, 0},
		{"a writer beside a reader", []interval{{1, 9}, {2, 3}}, []interval{{5, 6}}, 1},
		{"a reader beside a writer", []interval{{5, 9}}, []interval{{1, 6}}, 1},
		{"writers together", nil, []interval{{1, 6}, {5, 7}}, 1},
		{"a writer in the middle of two readers", []interval{{1, 5}, {3, 9}}, []interval{{4, 6}}, 1},
	} {
		if got := rwViolations(row.readers, row.writers); got != row.want {
			t.Errorf("%s: rwViolations = %d, want %d", row.name, got, row.want)
		}
	}
}

// slow is a mutex whose every lock takes that long.
type slow time.Duration

func (s slow) lock(context.Context) error {
	time.Sleep(time.Duration(s))
	return nil
}

func (slow) unlock() error { return nil }

// Whole operations would be a biased count: of those that take a third of the run, three and a bit fit.
func TestTheLastOperationCountsByThePartThatWasInTime(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		d := drive([]mutex{slow(20 * time.Millisecond)}, 30*time.Millisecond, time.Second)
		if len(d.Times) != 2 || d.InTime != 1.5 {
			t.Errorf("drive = %d operations, %.2f of them in time, want 2, the second in part", len(d.Times), d.InTime)
		}
	})
}

// named is locks that note the names they were asked for.
type named struct{ names []string }

func (n *named) mutex(name string) mutex {
	n.names = append(n.names, name)
	return slow(0)
}

func (*named) close() {}

func TestChangingMutexHasANewNameEachTime(t *testing.T) {
	n := &named{}
	m := &changing{locks: n, prefix: "p"}
	for range 3 {
		m.lock(t.Context())
		m.unlock()
	}
	if want := []string{"p:1", "p:2", "p:3"}; !slices.Equal(n.names, want) {
		t.Errorf("names = %q, want %q", n.names, want)
	}
}

// TestEveryWorkloadRuns makes one very short repetition of everything.
func TestEveryWorkloadRuns(t *testing.T) {
	programs.Need(t, "redis-server")
	b := &bench{log: io.Discard, subjects: subjects(), workloads: workloads(), plan: plan{
		reps: 1, faultReps: 1, leaseReps: 1, part: 0, warmUp: 10 * time.Millisecond, lasting: 20 * time.Millisecond,
		bound: 500 * time.Millisecond, contending: 100 * time.Millisecond, holding: 100 * time.Millisecond,
		leases: 200, handovers: 2, kills: 1, races: 1,
	}}
	res, err := b.run()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{idFenced1, idFenced4} {
		if _, ok := res.value(id, fencedID, oneRound); !ok {
			t.Errorf("%s: rounds were not counted", id)
		}
	}
	for _, ms := range farRoundTrips {
		if trip, _ := res.value(idTrip(ms), oursID, ping); trip < float64(ms) {
			t.Errorf("%s: PING took %v ms", idTrip(ms), trip)
		}
	}
	for _, w := range b.workloads {
		for _, s := range b.subjects {
			if w.takes(s) && len(res.found[key{w.id, s.id}]) != 1 {
				t.Errorf("%s: %s: no figures", w.id, s.id)
			}
		}
		for _, id := range []string{oursID, unguardedID, fencedID, setID, readersID} {
			if n, _ := res.value(w.id, id, broken); n != 0 {
				t.Errorf("%s: %v violations of mutual exclusion by %s", w.id, n, id)
			}
		}
	}
}
