package server

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// How slots that have become free are passed on.

// purge takes slots that have expired from their tokens, and reports whether there were any.
func (t *execution) purge() bool {
	var old []int64
	for slot, p := range t.taken {
		if p.until <= t.ms {
			old = append(old, slot)
		}
	}
	slices.SortFunc(old, func(a, b int64) int {
		return cmp.Or(cmp.Compare(t.taken[a].until, t.taken[b].until), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	for _, slot := range old {
		token := t.taken[slot].token
		if is, known := t.tokens[token]; known {
			is.slots = slices.DeleteFunc(slices.Clone(is.slots), func(s int64) bool { return s == slot })
			is.aimed = is.aimed && len(is.slots) > 0
			t.store(token, is)
		}
		t.vacate(slot, token, "")
	}
	return len(old) > 0
}

// unnoted is how long, in µs, a client without a note is live after it has joined the queue.
const unnoted = 10e6

// is says how the client of a claim with this score is, as far as its note tells.
func (t *execution) is(client string, score float64) state {
	n, noted := t.notes[client]
	noted = noted && n.until.After(t.now)
	late := t.micros/1000 - n.till
	switch {
	case client == t.id || score <= t.micros && t.micros-score <= lately || noted && late <= 0 || !noted && t.micros-math.Mod(score, aside) <= unnoted:
		return live
	case noted && late <= n.far:
		return unheard
	}
	return silent
}

// exchange gives free slots to claims that are in the way.
func (t *execution) exchange() {
	var rest []int64
	for _, slot := range t.cross {
		token := t.taken[slot].token
		is, known := t.tokens[token]
		if _, wished := t.wishes[slot]; !known || !wished || is.aimed || !slices.Equal(is.slots, []int64{slot}) || !t.subscribed(is.client) {
			continue
		}
		if slots := t.free(1, is.limit, -1); slots != nil {
			t.grant(slots[0], token)
		} else {
			rest = append(rest, slot)
		}
	}
	t.cross = rest
}

// ready reports whether a member of the queue can be given slots. If it cannot, it is removed or set aside. blocked says that fewer slots are
// free than it wants, and careful that a client that is unheard is passed over. If a client can be given slots, it is told of that, which shows whether it is gone.
func (t *execution) ready(m member, blocked bool, careful *bool) bool {
	r, ok := requestOf(m.name)
	is := t.is(r.client, m.score)
	passes := is == live || is == unheard && (blocked || !*careful)
	ended := !ok || !t.subscribed(r.client)
	switch {
	case ok && passes && !(ended && blocked):
		return true
	case ended:
		t.queue, _ = remove(t.queue, m.name)
		return false
	case m.score < aside:
		t.queue = add(t.queue, m.name, even(m.score+aside))
		t.tell(m.name)
	}
	*careful = true
	return false
}

// passedFor is for how much longer than twice as long as a claim that passes it the head waits at most, in µs.
const passedFor = 30000

// choose returns the index of the near claim that a slot goes to.
func (t *execution) choose(slot int64, front []member) int {
	head, _ := requestOf(front[0].name)
	latest := (front[0].score+t.micros)/2 + passedFor
	same, other := map[string]bool{}, -1
	for i, m := range front {
		r, _ := requestOf(m.name)
		if r.n != 1 || r.limit != head.limit || m.score > latest {
			break
		} else if r.first == fmt.Sprint(slot)+"!" {
			return i
		}
		if other < 0 && (same[r.first] || !strings.HasSuffix(r.first, "!")) {
			other = i
		}
		same[r.first] = true
	}
	return max(other, 0)
}

// next returns the member of the queue that free slots go to, and the slots. It reports false if there is none.
func (t *execution) next(careful *bool) (name string, slots []int64, ok bool) {
	for len(t.queue) > 0 {
		m := t.queue[0]
		r, _ := requestOf(m.name)
		open := number(r.limit) - int64(len(t.taken))
		switch {
		case open < 1:
			return "", nil, false
		case t.ready(m, open < r.n, careful):
			if slots = t.free(r.n, r.limit, -1); slots == nil {
				return "", nil, false
			}
			at := 0
			front := t.queue[:min(t.near, len(t.queue))]
			if r.n == 1 {
				at = t.choose(slots[0], front)
			}
			if chosen := front[at]; at == 0 || t.ready(chosen, false, careful) {
				return chosen.name, slots, true
			}
		case m.score >= aside:
			return "", nil, false
		}
	}
	return "", nil, false
}

// pass passes free slots on.
func (t *execution) pass(careful bool) {
	t.exchange()
	for {
		name, slots, ok := t.next(&careful)
		if !ok {
			return
		}
		t.queue, _ = remove(t.queue, name)
		r, _ := requestOf(name)
		t.give(r, slots, r.g)
		t.tellSlots(r.client, r.token, slots)
		if !t.subscribed(r.client) {
			delete(t.tokens, r.token)
			for _, slot := range slots {
				delete(t.taken, slot)
			}
		}
	}
}

// give has a claim stand in free slots.
func (t *execution) give(r request, free []int64, life int64) {
	for _, slot := range free {
		t.taken[slot] = place{r.token, t.ms + life}
	}
	t.store(r.token, standing{r.client, fmt.Sprint(r.g), r.limit, false, free})
}
