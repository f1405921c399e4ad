package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Violation is a broken promise that a check has found.
type Violation struct {
	Kind string // which promise
	Text string // what happened
	At   int64  // 0: not known
	Name string // of the lock

	Until int64    // of two holders: when the first of them ended; else 0
	IDs   []string // of the operations that show it; nil: not known
}

// The kinds of violations.
const (
	Overlapping = "two holders"
	Falling     = "fences do not rise"
	Untold      = "loss not told" // see Losses
	Broken      = "no history"    // see Contradictions
)

// Overlaps returns the leases of one name during which somebody else entered who was not to, and the total time for
// which two such leases were valid. Readers exclude writers, but not each other. ops are in any order.
func Overlaps(ops []Operation) (all []Violation, total time.Duration) {
	var reader, writer Operation  // who held longest of those that entered earlier
	seen := make(map[string]bool) // leases that are in all
	for _, o := range ConfirmedOps(ops) {
		before := writer
		if !o.Reads() && reader.Held > writer.Held {
			before = reader
		}
		if o.Reads() && o.Held > reader.Held {
			reader = o
		} else if !o.Reads() && o.Held > writer.Held {
			writer = o
		}
		if o.Entered >= before.Held {
			continue
		}
		d := time.Duration(min(o.Held, before.Held) - o.Entered)
		total += d
		if seen[before.ID] {
			continue
		}
		seen[before.ID] = true
		all = append(all, Violation{
			Kind: Overlapping, At: o.Entered, Name: o.Name, Until: min(o.Held, before.Held), IDs: []string{before.ID, o.ID},
			Text: fmt.Sprintf("%v held %q from %.6f to %.6f, and %v from %.6f to %.6f: %v together",
				&before, o.Name, Seconds(before.Entered), Seconds(before.Held), &o, Seconds(o.Entered), Seconds(o.Held), d),
		})
	}
	return all, total
}

// ConfirmedOps returns the confirmed Operations, by the time of entering.
func ConfirmedOps(ops []Operation) []Operation {
	var stays []Operation
	for _, o := range ops {
		if o.Confirmed() {
			stays = append(stays, o)
		}
	}
	slices.SortFunc(stays, func(a, b Operation) int { return cmp.Compare(a.Entered, b.Entered) })
	return stays
}

// Fences returns the violations of the order of fences of one Name: a lease without a fence, two leases of writers
// with the same fence, and fences that do not rise in the order of holding. A reader's fence may be equal to that of an
// earlier writer. Among readers there is no order.
func Fences(ops []Operation) (all []Violation) {
	var order []Operation
	for _, o := range ops {
		if o.Entered != 0 {
			order = append(order, o)
		}
	}
	slices.SortFunc(order, func(a, b Operation) int { return cmp.Compare(a.Entered, b.Entered) })
	add := func(o Operation, format string, args ...any) {
		all = append(all, Violation{Kind: Falling, At: o.Entered, Name: o.Name, IDs: []string{o.ID}, Text: fmt.Sprintf("%q: ", o.Name) + fmt.Sprintf(format, args...)})
	}
	given := make(map[uint64]Operation) // to writers
	for _, o := range order {
		if o.Fence == 0 {
			add(o, "%v has no fence", &o)
		} else if other, taken := given[o.Fence]; taken && !o.Reads() {
			add(o, "%v and %v have the same, %d", &other, &o, o.Fence)
		}
		if !o.Reads() {
			given[o.Fence] = o
		}
	}
	// An Operation that had entered before another one asked must have a lower fence.
	ordered(order, func(o Operation) int64 { return o.Entered }, func(o Operation) int64 { return o.Asked }, func(b, o Operation) {
		add(o, "%v has %d, and %v, which asked after it had entered, has %d", &b, b.Fence, &o, o.Fence)
	})
	// An Operation that held before another one did must have a lower fence, too.
	ordered(ConfirmedOps(ops), func(o Operation) int64 { return o.Held }, func(o Operation) int64 { return o.Entered }, func(b, o Operation) {
		add(o, "%v has %d, and %v, which held after it, has %d", &b, b.Fence, &o, o.Fence)
	})
	return all
}

// Losses returns how many leases were lost, and a violation for each whose unlock did not say so. ops are those of all names.
func Losses(ops []Operation) (n int, all []Violation) {
	for _, o := range ops {
		if o.Lost == 0 {
			continue
		}
		n++
		if o.Left != 0 && o.Err == "" {
			all = append(all, Violation{Kind: Untold, At: o.Left, Name: o.Name, IDs: []string{o.ID},
				Text: fmt.Sprintf("%v found its lease of %q lost at %.6f, and its unlock returned no error", &o, o.Name, Seconds(o.Lost))})
		}
	}
	return n, all
}

// Contradictions returns a violation for each operation whose records cannot be those of a client: the others say
// nothing of such an operation.
func Contradictions(ops []Operation) (all []Violation) {
	for _, o := range ops {
		text := ""
		switch {
		case o.Asked == 0 || o.Name == "":
			text = "has not asked for a lock"
		case o.Refused != 0 && o.Entered != 0:
			text = "was refused the lock, and has entered"
		case o.Entered == 0 && (o.Held != 0 || o.Lost != 0 || o.Leaving != 0):
			text = "has held the lock, and not entered"
		case !rising(o.Asked, o.Refused) || !rising(o.Asked, o.Entered, o.Leaving, o.Left) || !rising(o.Entered, o.Lost):
			text = "has records with times that do not rise"
		default:
			continue
		}
		all = append(all, Violation{Kind: Broken, At: o.Asked, Name: o.Name, IDs: []string{o.ID}, Text: fmt.Sprintf("%v %s", &o, text)})
	}
	return all
}

// rising reports whether times do not fall. Those that are 0 do not count.
func rising(times ...int64) bool {
	times = slices.DeleteFunc(times, func(t int64) bool { return t == 0 })
	return slices.IsSorted(times)
}

// ordered calls report for each Operation that has too low a fence, with the earlier one that shows it. An Operation
// is earlier than another if its end is before the other's beginning.
func ordered(ops []Operation, end, beginning func(Operation) int64, report func(b, o Operation)) {
	ended := slices.SortedFunc(slices.Values(ops), func(a, b Operation) int { return cmp.Compare(end(a), end(b)) })
	begun := slices.SortedFunc(slices.Values(ops), func(a, b Operation) int { return cmp.Compare(beginning(a), beginning(b)) })
	var reader, writer Operation // with the highest fences of those that are earlier
	for _, o := range begun {
		for ; len(ended) > 0 && end(ended[0]) < beginning(o); ended = ended[1:] {
			b := ended[0]
			if b.Reads() && b.Fence > reader.Fence {
				reader = b
			} else if !b.Reads() && b.Fence > writer.Fence {
				writer = b
			}
		}
		switch {
		case writer.Fence > o.Fence: // equal fences of writers are found elsewhere
			report(writer, o)
		case !o.Reads() && reader.Fence > 0 && reader.Fence >= o.Fence:
			report(reader, o)
		}
	}
}

// Seconds returns a time in nanoseconds as seconds.
func Seconds(ns int64) float64 { return float64(ns) / float64(time.Second) }
