package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
)

func TestRecentKeepsYoungEntriesAndDropsOldOnes(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := recent[int]{keep: 10 * time.Second}
		if _, ok := r.get("a"); ok {
			t.Error("an empty one has an entry")
		}
		for i := range 100 {
			name := fmt.Sprint(i % 7)
			r.put(name, i)
			time.Sleep(9999 * time.Millisecond)
			if got, ok := r.get(name); !ok || got != i {
				t.Fatalf("entry %s = %d, %t after 9.999 s, want %d", name, got, ok, i)
			}
		}
		r.put("a", 1)
		r.put("b", 1)
		time.Sleep(9 * time.Second)
		r.put("b", 2)
		if got, _ := r.get("b"); got != 2 {
			t.Errorf("entry b = %d, want 2", got)
		}
		time.Sleep(20 * time.Second)
		for _, name := range []string{"a", "b"} {
			if got, ok := r.get(name); ok {
				t.Errorf("entry %s = %d after 20 s, want none", name, got)
			}
		}
	})
}

func TestRecentIsBounded(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := recent[int]{keep: time.Hour}
		for i := range 10 * recentMost {
			r.put(fmt.Sprint(i), i)
			if i >= recentMost-1 {
				if got, ok := r.get(fmt.Sprint(i - recentMost + 1)); !ok || got != i-recentMost+1 {
					t.Fatalf("after %d younger ones entry %d is gone", recentMost-1, i-recentMost+1)
				}
			}
		}
		if n := len(r.young) + len(r.old); n > 2*recentMost {
			t.Errorf("%d entries are kept, want %d at most", n, 2*recentMost)
		}
	})
}
