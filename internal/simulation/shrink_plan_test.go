package simulation

import (
	"testing"
	"time"
)

func TestCallsOfAReducedPlanKeepTheirTimes(t *testing.T) {
	p := makePlanOf(7, profiles[0])
	calls := p.processes[0].workers[0]
	want := calls[0].think + calls[0].hold + calls[1].think + calls[1].hold + calls[2].think
	if err := p.drop("call:0.0.0,call:0.0.1,process:1"); err != nil {
		t.Fatal(err)
	}
	left := p.processes[0].workers[0]
	if len(left) != len(calls)-2 || left[0].think != want || left[0].hold != calls[2].hold {
		t.Errorf("the first call comes after %v and holds for %v, want %v and %v", left[0].think, left[0].hold, want, calls[2].hold)
	}
	if !p.processes[1].absent || p.processes[0].absent {
		t.Error("process 1 is there, or process 0 is not")
	}
	if err := p.drop("fault:99"); err == nil {
		t.Error("a fault that is not there can be left out")
	}
}

func TestFaultsOfOneMasterDoNotOverlap(t *testing.T) {
	for seed := range uint64(200) {
		p := makePlanOf(seed, find(t, "masters"))
		last := make(map[int][]fault)
		for _, f := range p.faults {
			if f.lasts == 0 {
				continue
			}
			for _, i := range f.masters {
				for _, other := range last[i] {
					if f.at < other.at+other.lasts && other.at < f.at+f.lasts {
						t.Fatalf("seed %d: faults %d and %d of master %d overlap", seed, f.id, other.id, i)
					}
				}
				last[i] = append(last[i], f)
			}
		}
	}
}

func TestNoTwoProfilesHaveOneName(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range profiles {
		if seen[p.name] || p.free < 10*time.Millisecond {
			t.Errorf("profile %s: twice, or without a bound", p.name)
		}
		seen[p.name] = true
	}
}

// find returns a profile by its name.
func find(t *testing.T, name string) *profile {
	for _, p := range profiles {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("no profile %s", name)
	return nil
}
