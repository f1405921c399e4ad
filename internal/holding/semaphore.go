package holding

import (
	"maps"
	"slices"

	"github.com/redlock-go/redlock/internal/wire"
)

// A Semaphore is the combined state of one semaphore on several masters.
type Semaphore struct {
	Slots []Slot // in which a token stands at some master, in ascending order; only some if there are many
	Taken int    // how many slots that may be; more than there are in Slots if only some are listed
	Queue
}

// A Slot is the combined state of one slot: a Holding without a fence and a queue.
type Slot struct {
	Number int // of the slot
	Holding
}

// OfSemaphore combines the looks of the masters that have answered, out of n masters.
func OfSemaphore(looks []wire.SlotLook, n int) (s Semaphore) {
	slots := make(map[int][]wire.Look)
	limits := make(map[string]int) // by token
	var queues []wire.Queue
	for i, look := range looks {
		for _, slot := range look.Slots {
			if slots[slot.Slot] == nil {
				slots[slot.Slot] = make([]wire.Look, len(looks))
			}
			slots[slot.Slot][i] = wire.Look{Holder: slot.Holder}
			limits[slot.Token] = max(limits[slot.Token], slot.Limit)
		}
		s.Taken = max(s.Taken, look.Taken)
		queues = append(queues, look.Queue)
	}
	for _, number := range slices.Sorted(maps.Keys(slots)) {
		slot := Slot{Number: number, Holding: Of(slots[number], n)}
		slot.Limit = limits[slot.Token]
		s.Slots = append(s.Slots, slot)
	}
	s.Taken = max(s.Taken, len(s.Slots))
	s.Queue = queueOf(queues, n)
	return s
}

// Limits returns the limits that holders and waiters use, as far as they are listed, in ascending order.
func (s Semaphore) Limits() (limits []int) {
	for _, slot := range s.Slots {
		limits = append(limits, slot.Limit)
	}
	for _, w := range s.Waiters {
		limits = append(limits, w.Limit)
	}
	slices.Sort(limits)
	return slices.DeleteFunc(slices.Compact(limits), func(limit int) bool { return limit == 0 })
}
