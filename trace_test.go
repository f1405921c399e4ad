package redlock_test

import (
	"testing"
	"testing/synctest"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
)

func TestEventsAreDeliveredInOrderAndBounded(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		const most = 1 << 14
		var b redlock.Background
		<-b.Done()
		resume := make(chan struct{})
		b.Post(func() { <-resume })
		synctest.Wait()
		var got []int
		for i := range most + 10 {
			b.Post(func() { got = append(got, i) })
		}
		select {
		case <-b.Done():
			t.Error("the events are done while a function has not returned")
		default:
		}
		close(resume)
		<-b.Done()
		if len(got) != most {
			t.Fatalf("%d events were delivered, want %d", len(got), most)
		}
		for i, n := range got {
			if n != i {
				t.Fatalf("event %d was delivered as number %d", n, i)
			}
		}
	})
}
