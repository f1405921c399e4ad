package fence

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// Slots are the agreement of one claim on slots of a semaphore with the masters on its number. Each slot has a quorum of its own. All
// slots have one number at a master, which other claims may raise meanwhile.
//
//   - In the first round, a master raises its number above the last one. The claim's number is not lower than those of a quorum for each
//     slot. So it is above the number of each earlier holder of a slot: one master of that quorum has acknowledged it.
//   - It is agreed when a quorum for each slot has a number as high. These masters give each later holder of the slot a higher one. A
//     further round raises numbers that are lower.
//
// Example: the masters give 70, 71 and 75. If only the first two have answered, the number is 71, and a second round raises that of the
// first master. If all have, the number is 71, and the last two have acknowledged it. Slots are not safe for concurrent use.
type Slots struct {
	Number int64 // 0: no round has succeeded
	Agreed bool  // a quorum for each slot has a number as high

	slots []int // immutable
}

// NewSlots returns the agreement of a claim on these slots before its first round.
func NewSlots(slots []int) *Slots { return &Slots{slots: slots} }

// Heard counts the votes of the current round. It reports whether the claim has a quorum for each slot: it has agreed, or a further
// round, which commits Number, may help. The first round began at start. It is called again if more votes have come to a round for
// which it was false.
//
// A number that is older than maxTTL is replaced by that of the clock, as for a lock.
func (s *Slots) Heard(votes []quorum.Vote, start time.Time, maxTTL time.Duration) (more bool) {
	need, number := quorum.Majority(len(votes)), s.Number
	for _, slot := range s.slots {
		numbers := acknowledged(votes, slot, s.Number)
		if len(numbers) < need {
			return false
		}
		if s.Number == 0 {
			number = max(number, numbers[need-1])
		}
	}
	if number < At(start.Add(-maxTTL)) {
		number = At(start)
	}
	s.Number = number
	s.Agreed = !slices.ContainsFunc(s.slots, func(slot int) bool { return len(acknowledged(votes, slot, number)) < need })
	return true
}

// acknowledged returns the numbers of the masters at which the token stands in a slot and the number is not below least, in ascending
// order.
func acknowledged(votes []quorum.Vote, slot int, least int64) (numbers []int64) {
	for _, v := range votes {
		if v.Granted() && v.Fence >= least && slices.Contains(v.Slots.All(), slot) {
			numbers = append(numbers, v.Fence)
		}
	}
	slices.Sort(numbers)
	return numbers
}
