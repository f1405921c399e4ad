package master

import (
	"fmt"
	"github.com/redlock-go/redlock/internal/wire"
	"math/rand/v2"
	"testing"
)

// TestAPlanKeepsTheOrderOfEachName arranges random queues and holds the result
// to what a plan promises.
func TestAPlanKeepsTheOrderOfEachName(t *testing.T) {
	var p plan
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		names := 1 + random.IntN(300)
		var queue []item
		for i := range random.IntN(600) {
			kind, claim := []wire.Kind{wire.Set, wire.Renew, wire.Release, wire.Undo, wire.Again, wire.Ping}[random.IntN(6)], (*SentClaim)(nil)
			if kind != wire.Ping {
				claim = claimBy(fmt.Sprint(i), fmt.Sprint(random.IntN(names)))
			}
			it := newItem(kind, claim, nil)
			it.alone = random.IntN(20) == 0
			queue = append(queue, it)
		}
		checkPlan(t, queue, p.arrange(queue))
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func checkPlan(t *testing.T, queue, got []item) {
	t.Helper()
	want := make(map[string][]*SentClaim) // by name, in order
	scripted, pings := 0, 0
	for _, it := range queue {
		if it.claim == nil {
			pings++
			continue
		}
		want[it.claim.Key()] = append(want[it.claim.Key()], it.claim)
		if it.Scripted() && !it.alone {
			scripted++
		}
	}
	if len(got) != len(queue) {
		t.Errorf("%d items of %d are left", len(got), len(queue))
	}
	batches := 0
	for i := 0; i < len(got); {
		n := got[i].batch
		if (n > 0) != got[i].Scripted() || n > wire.BatchMost {
			t.Errorf("item %d, a %v, begins a batch of %d", i, got[i].Kind, n)
			return
		}
		if n > 0 && !got[i].alone {
			batches++
		}
		for _, it := range got[i : i+max(n, 1)] {
			if it.claim == nil {
				pings--
				continue
			}
			name := it.claim.Key()
			if n > 1 && (it.alone || !it.Scripted()) {
				t.Errorf("a %v, alone: %v, is in a batch of %d", it.Kind, it.alone, n)
			}
			if len(want[name]) == 0 || want[name][0] != it.claim {
				t.Errorf("a command of %s was overtaken by a later one", name)
				return
			}
			want[name] = want[name][1:]
		}
		i += max(n, 1)
	}
	if pings != 0 {
		t.Errorf("%d pings are missing", pings)
	}
	if len(queue) > 300 && len(want) > 250 && batches > scripted/4 {
		t.Errorf("%d commands of many names make %d batches", scripted, batches)
	}
}

// Callers that unlock and lock again at once must not break up the batch.
func TestAReleaseAndTheNextAcquisitionShareABatch(t *testing.T) {
	var queue []item
	for i := range 10 {
		name := fmt.Sprint(i)
		queue = append(queue,
			newItem(wire.Release, claimBy("old", name), nil),
			newItem(wire.Register, claimBy("new", name), nil))
	}
	var p plan
	if got := p.arrange(queue); got[0].batch != len(queue) {
		t.Errorf("the first batch has %d of %d commands", got[0].batch, len(queue))
	}
}
