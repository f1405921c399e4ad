package recent

import (
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
)

func TestAMapKeepsYoungEntriesAndDropsOldOnes(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		m := Map[int]{Keep: 10 * time.Second}
		if _, ok := m.Get("a"); ok {
			t.Error("an empty one has an entry")
		}
		for i := range 100 {
			name := fmt.Sprint(i % 7)
			m.Put(name, i)
			time.Sleep(9999 * time.Millisecond)
			if got, ok := m.Get(name); !ok || got != i {
				t.Fatalf("entry %s = %d, %t after 9.999 s, want %d", name, got, ok, i)
			}
		}
		m.Put("a", 1)
		m.Put("b", 1)
		time.Sleep(9 * time.Second)
		m.Put("b", 2)
		if got, _ := m.Get("b"); got != 2 {
			t.Errorf("entry b = %d, want 2", got)
		}
		time.Sleep(20 * time.Second)
		for _, name := range []string{"a", "b"} {
			if got, ok := m.Get(name); ok {
				t.Errorf("entry %s = %d after 20 s, want none", name, got)
			}
		}
	})
}

func TestAMapIsBounded(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		m := Map[int]{Keep: time.Hour}
		for i := range 10 * most {
			m.Put(fmt.Sprint(i), i)
			if i >= most-1 {
				if got, ok := m.Get(fmt.Sprint(i - most + 1)); !ok || got != i-most+1 {
					t.Fatalf("after %d younger ones entry %d is gone", most-1, i-most+1)
				}
			}
		}
		if n := len(m.young) + len(m.old); n > 2*most {
			t.Errorf("%d entries are kept, want %d at most", n, 2*most)
		}
	})
}

func TestASetForgetsNames(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := NewSet(time.Second)
		if s.Has("a") {
			t.Error("an empty one has a name")
		}
		s.Add("a")
		time.Sleep(999 * time.Millisecond)
		if !s.Has("a") || s.Has("b") {
			t.Errorf("has a: %v, b: %v; want a only", s.Has("a"), s.Has("b"))
		}
		time.Sleep(2 * time.Second)
		if s.Has("a") {
			t.Error("a name is kept for 3 s, want it forgotten")
		}
	})
}
