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

func TestAValueThatWasUsedIsLookedAtAgainLater(t *testing.T) {
	for _, row := range []struct {
		name string
		used []int // in this order, before a place is needed
		take int   // how many take a place then
		want int   // which is spared for the last of them
	}{
		{"all were used", []int{0, 1, 2}, 1, 0},
		{"one was used, and another one got its place after that", []int{0}, 3, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				o := Order[*item]{Most: 3, Used: func(v *item) (time.Time, bool) { return v.used, true }}
				items := make([]item, 3+row.take)
				var last *item
				for i := range items {
					if i == 3 {
						for _, used := range row.used {
							time.Sleep(time.Second)
							items[used].used = time.Now()
						}
					}
					time.Sleep(time.Second)
					spare, spared, _ := o.Take(&items[i].place, &items[i])
					if last = spare; spared {
						o.Leave(&spare.place)
					}
				}
				if last != &items[row.want] {
					t.Errorf("not item %d is spared, which was not used for longest", row.want)
				}
			})
		})
	}
}
