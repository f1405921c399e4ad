package explore

import "testing"

// The states are many more than the slots at first, and each is looked up among those whose hashes end alike.
func TestAnIndexFindsEachStateAndNoOther(t *testing.T) {
	type state struct {
		a, b int
		name string
	}
	x := newIndex[state]()
	var states []state
	at := func(i int) state { return state{i % 71, i / 71, "it"} }
	for i := range 20_000 {
		if got, ok := x.find(at(i), states); ok || got != int32(i) {
			t.Fatalf("state %d, which is new: %d, %v", i, got, ok)
		}
		states = append(states, at(i))
	}
	for i := range states {
		if got, ok := x.find(at(i), states); !ok || got != int32(i) {
			t.Fatalf("state %d: %d, %v, want it found", i, got, ok)
		}
	}
}
