package wire

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The claims on slots of a semaphore use a script of their own: slots.lua. They are claims with a g, and all else is as for a lock.

const (
	// LimitMost is the largest limit of a semaphore.
	LimitMost = 1 << 16
	// SlotsMost is how many slots a claim can have.
	SlotsMost = 128
)

// NearOf returns how many claims at the front of the queue of a semaphore with this limit are near. It is that of slots.lua.
func NearOf(limit int) int { return max(Near, min(limit, NearMost)) }

// A permits is what a claim on slots has beside its token.
type permits struct {
	size      string // immutable; the limit and the number of slots, as in the script's words
	preferred string // immutable; the slot that is asked for first, likewise
}

// slotsKey, with a semaphore's key behind it, is the key of its record.
const slotsKey = "redlock:slots:"

// NewSlotTerms returns the terms of claims on n of the slots of a semaphore.
func NewSlotTerms(key string, limit, n int, ttl time.Duration) Terms {
	terms := NewTerms(slotsKey+key, ttl)
	terms.slots = &permits{size: strconv.Itoa(limit) + " " + strconv.Itoa(n), preferred: "0"}
	return terms
}

// Prefer returns the terms of claims that ask for a slot first. If they wait, they are given it before others if it is reserved.
func (t Terms) Prefer(slot int, also bool) Terms {
	first := strconv.Itoa(slot)
	if also {
		first += "!"
	}
	t.slots = &permits{size: t.slots.size, preferred: first}
	return t
}

// OfSlots reports whether the claims are on slots of a semaphore.
func (t *Terms) OfSlots() bool { return t.slots != nil }

// A slotRequest is one that names slots.
type slotRequest struct {
	kind   Kind
	verb   string // of the script
	slots  string
	number int64 // of a Commit
}

func (r *slotRequest) Kind() Kind { return r.kind }

// AskAbout returns a poll of a claim on slots, which asks who stands in these.
func AskAbout(slots []int) Request { return &slotRequest{Again, "again", slotList(slots), 0} }

// AimAt returns a poll of a claim on slots, which leaves all slots but these, and stands in them or wishes them.
func AimAt(slots []int) Request { return &slotRequest{Again, "aim", slotList(slots), 0} }

// HealSlots returns the Heal of a holder of these slots. It leaves all others.
func HealSlots(slots []int) Request { return &slotRequest{Heal, "heal", slotList(slots), 0} }

// RenewSlots returns the Renew of a holder of these slots.
func RenewSlots(slots []int) Request { return &slotRequest{Renew, "renew", slotList(slots), 0} }

// FenceSlots returns the Commit of a claim that has a quorum for each of these slots and has no fence yet. A master where its token stands
// in some of them raises its number above the last one: to this number if that is higher. It lets these slots live for the TTL: Granted,
// with the slots and the number, or Missing.
func FenceSlots(slots []int, number int64) Request {
	return &slotRequest{Commit, "fence", slotList(slots), number}
}

// CommitSlots is FenceSlots, but a master raises its number to this one, if it is lower.
func CommitSlots(slots []int, number int64) Request {
	return &slotRequest{Commit, "commit", slotList(slots), number}
}

// Slots are slots of a semaphore as text: numbers in ascending order, separated by commas. Answers and messages with them can be compared.
type Slots string

// All returns the numbers.
func (s Slots) All() (slots []int) {
	if s == "" {
		return nil
	}
	for text := range strings.SplitSeq(string(s), ",") {
		if slot, err := strconv.Atoi(text); err == nil {
			slots = append(slots, slot)
		}
	}
	return slots
}

func slotList(slots []int) string {
	var text []byte
	for i, slot := range slots {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(slot), 10)
	}
	return string(text)
}

// parseSlots parses the slots of a token, which must all be different.
func parseSlots(list string) (_ Slots, ok bool) {
	if list == "" {
		return "", true
	}
	var slots []int
	for text := range strings.SplitSeq(list, ",") {
		slot, err := strconv.Atoi(text)
		if err != nil || slot < 0 || slot >= LimitMost || len(slots) == SlotsMost {
			return "", false
		}
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	return Slots(slotList(slots)), len(slices.Compact(slices.Clone(slots))) == len(slots)
}

// slotWord returns the command for slots.lua.
func (cmd *Command) slotWord() string {
	c := cmd.Claim
	verb, slots, number := "", "", int64(0)
	if r, ok := cmd.Request.(*slotRequest); ok {
		verb, slots, number = r.verb, r.slots, r.number
	}
	ttl := c.ttl.(string)
	waited := c.waited
	if !cmd.Listening || cmd.Kind == Heal || !c.queues() { // nobody could tell us
		waited = noQueue
	}
	switch cmd.Kind {
	case Register:
		ttl, verb = c.registerTTL, "register"
	case Again:
		ttl, verb = c.g, cmp.Or(verb, "again")
	case Renew:
		return "renew " + ttl + " " + slots
	case Commit:
		return verb + " " + ttl + " " + slots + " " + strconv.FormatInt(number, 10)
	case Heal:
	default: // a release of any kind
		return "release " + c.slots.size + " " + c.slots.preferred + " " + c.g
	}
	word := verb + " " + ttl + " " + c.slots.size + " " + c.slots.preferred + " " + c.g + " " + waited
	if slots != "" {
		word += " " + slots
	}
	return word
}

// decodeSlots decodes the reply to an acquisition of slots, and reports false as Decode does.
func decodeSlots(reply any) (a Answer, ok bool) {
	var n, isNew, other, ahead int64
	var mine, standing []byte
	if !scan(reply, &n, &mine, &standing, &isNew, &other, &ahead) || n == 0 || isNew < 0 || isNew > 1 || other < 0 || other > LimitMost || ahead < 0 {
		return Answer{}, false
	}
	slots, ok := parseSlots(string(mine))
	if !ok || (slots != "") != (n > 0) {
		return Answer{}, false
	}
	if n < 0 {
		a = taken(-2 - n)
		a.Ahead = int(min(ahead, aheadMost))
	} else if a, ok = holds(n); !ok {
		return Answer{}, false
	}
	a.Slots, a.Standing, a.New, a.OtherLimit = slots, string(standing), isNew == 1, int(other)
	return a, true
}

// decodeSlotCommit decodes the reply to a Commit of slots, and reports false as Decode does.
func decodeSlotCommit(reply any) (a Answer, ok bool) {
	var mine []byte
	var number int64
	ok = scan(reply, &mine, &number)
	slots, parsed := parseSlots(string(mine))
	if !ok || !parsed || number < 0 || (slots != "") != (number > 0) {
		return Answer{}, false
	}
	if slots == "" {
		return Answer{Outcome: Missing}, true
	}
	return Answer{Outcome: Granted, Slots: slots, Fence: number}, true
}

// Rivals calls yield with each slot that was asked for in which another token stands, and with the beginning of that token.
func (a *Answer) Rivals(own string, yield func(slot int, token string)) {
	for text := range strings.FieldsSeq(a.Standing) {
		number, token, ok := strings.Cut(text, "=")
		slot, err := strconv.Atoi(number)
		if ok && err == nil && token != "" && token != own[:min(len(own), standingBytes)] {
			yield(slot, token)
		}
	}
}
