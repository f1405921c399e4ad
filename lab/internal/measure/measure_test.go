package measure

import (
	"errors"
	"slices"
	"sync"
	"testing"
)

func TestForAllCallsEachOnceAndReturnsAnError(t *testing.T) {
	var mu sync.Mutex // guards called
	var called []int
	failed := errors.New("failed")
	err := ForAll(10, 3, func(i int) error {
		mu.Lock()
		defer mu.Unlock()
		if called = append(called, i); i == 9 {
			return failed
		}
		return nil
	})
	slices.Sort(called)
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(called, want) || err != failed {
		t.Errorf("ForAll calls with %v, and returns %v, want %v, and the error", called, err, want)
	}
}
