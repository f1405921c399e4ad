package recent

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
)

type item struct {
	used  time.Time
	fixed bool // it cannot be spared
	place Place[*item]
}

func TestAnOrderSparesWhatWasNotUsedForLongest(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		o := Order[*item]{Most: 4, Used: func(v *item) (time.Time, bool) { return v.used, !v.fixed }}
		items := make([]item, 8)
		take := func(i int) *item {
			time.Sleep(time.Second)
			spare, spared, ok := o.Take(&items[i].place, &items[i])
			if spared {
				o.Leave(&spare.place)
			}
			if !ok || spared != (spare != nil) {
				t.Fatalf("item %d gets no place", i)
			}
			return spare
		}
		for i := range 4 {
			if take(i) != nil {
				t.Fatalf("item %d takes a place of another", i)
			}
		}
		time.Sleep(time.Second)
		items[0].used = time.Now()
		items[1].fixed = true
		if got := take(4); got != &items[2] {
			t.Error("for item 4, not item 2 is spared, the first that was not used")
		}
		if got := take(5); got != &items[3] {
			t.Error("for item 5, not item 3 is spared")
		}
		for i := range items {
			time.Sleep(time.Second)
			items[len(items)-1-i].used = time.Now()
		}
		if got := take(6); got != &items[5] {
			t.Error("for item 6, not item 5 is spared, which was used before items 4 and 0")
		}
		for i := range items {
			items[i].fixed = true
		}
		if _, spared, ok := o.Take(&items[7].place, &items[7]); spared || ok {
			t.Error("item 7 gets a place, although none can be spared")
		}
		o.Leave(&items[7].place) // it has none
		o.Leave(&items[0].place)
		if spare := take(7); spare != nil {
			t.Error("item 7 takes a place of another, although one was given up")
		}
	})
}
