package gate

import (
	"slices"
	"testing"
)

// at reports whether a goroutine is at the front of its crowd.
func at(p *Place) bool {
	select {
	case <-p.Ready():
		return true
	default:
		return false
	}
}

// gives is a function for Pass that gives a tag back, if it is the wanted one.
func gives(want any) func(tag any) any {
	return func(tag any) any {
		if tag != want {
			return nil
		}
		return tag
	}
}

func TestAsManyAreAtTheFrontAsHoldPermits(t *testing.T) {
	var c Crowd
	var all []*Place
	for i := range 100 {
		all = append(all, c.Join(i))
	}
	want := func(first, n int) {
		t.Helper()
		for i, p := range all {
			if i >= first && at(p) != (i < first+n) {
				t.Fatalf("goroutine %d is at the front: %t, want %d from %d on", i, at(p), n, first)
			}
		}
	}
	want(0, frontLeast)
	if c.TryJoin() != nil {
		t.Error("a goroutine that does not wait has joined a front that is full")
	}
	all[0].Leave()
	all[0].Leave()
	want(1, frontLeast)
	all[50].Leave() // not at the front
	all = append(all[:50], all[51:]...)
	c.Held(10)
	want(1, 10)
	c.Held(90)
	want(1, frontMost)
	c.Held(-100)
	for _, p := range all {
		p.Leave()
	}
	if p := c.TryJoin(); p == nil {
		t.Error("a goroutine that does not wait has not joined an empty front")
	} else if c.Pass(func(any) any { return 1 }) {
		t.Error("something was passed on to a goroutine that does not wait")
	} else {
		p.Leave()
	}
	if n := c.front.Len() + c.back.Len(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestThoseWhoDoNotWaitTakeNoPlaceFromOthers(t *testing.T) {
	var c Crowd
	var tries []*Place
	for range frontMost {
		tries = append(tries, c.TryJoin())
	}
	if slices.Contains(tries, nil) || c.TryJoin() != nil {
		t.Errorf("want that %d can try, and no more", frontMost)
	}
	var waits []*Place
	for i := range frontLeast + 1 {
		if p := c.Join(i); at(p) != (i < frontLeast) {
			t.Errorf("goroutine %d is at the front: %t", i, at(p))
		} else {
			waits = append(waits, p)
		}
	}
	for _, p := range tries {
		p.Leave()
	}
	if c.TryJoin() != nil {
		t.Error("a goroutine that does not wait has joined although others wait for a place")
	}
	for _, p := range waits {
		p.Leave()
	}
	if c.trying != 0 || c.front.Len() != 0 || c.TryJoin() == nil {
		t.Error("somebody is left")
	}
}

func TestABatonGoesToTheFirstWhoIsOpenAndIsNotLost(t *testing.T) {
	var c Crowd
	a, b, last := c.Join("a"), c.Join("b"), c.Join("last")
	if c.Pass(gives("b")) {
		t.Error("a baton has overtaken the first, who cannot use it")
	}
	if !a.Suspend() || !c.Pass(gives("b")) {
		t.Error("the first is closed, and the second has no baton")
	}
	if b.Suspend() {
		t.Error("Close does not say that there is a baton")
	}
	<-b.Passed()
	if got := b.Take(); got != "b" {
		t.Errorf("b took %v", got)
	}
	if got := b.Leave(); got != nil {
		t.Errorf("a baton that was taken is returned: %v", got)
	}
	a.Resume()
	if !c.Pass(gives("a")) {
		t.Error("the first has no baton")
	}
	if got := a.Leave(); got != "a" {
		t.Errorf("a leaves with %v, want its baton", got)
	}
	if last.Leave(); c.Pass(gives("last")) || c.front.Len() != 0 {
		t.Error("somebody is left")
	}
}
