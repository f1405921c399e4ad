package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/executed"
)

// How the slots of a semaphore are given.

// A Semaphore is what a master knows of one semaphore.
type Semaphore struct {
	taken  map[int64]place     // by slot
	wishes map[int64]wish      // likewise; one slot at most has one
	tokens map[string]standing // what is known of a token
	limit  string              // that of the token of which something was noted last
	cross  []int64             // slots that were wished while a token stood in them

	queue      []member
	queueUntil time.Time
	until      time.Time // when all but the queue and the fence expires
	fenced
}

// A place is what a slot has that is taken.
type place struct {
	token string
	until int64 // in ms
}

// A wish is the token to which a slot goes that becomes free until then.
type wish struct {
	token string
	until int64 // in ms
	claim bool  // not a holder
}

// A standing is what is known of a token.
type standing struct {
	client, g, limit string
	aimed            bool
	slots            []int64 // in which it stands, in the order in which they were given
}

// slotsPrefix, with a semaphore's name behind it, is its key.
const slotsPrefix = "redlock:slots:"

func newSemaphore() *Semaphore {
	return &Semaphore{taken: map[int64]place{}, wishes: map[int64]wish{}, tokens: map[string]standing{}}
}

func (s *Semaphore) clone() *Semaphore {
	c := *s
	c.taken, c.wishes, c.tokens = maps.Clone(s.taken), maps.Clone(s.wishes), maps.Clone(s.tokens)
	for token, is := range c.tokens {
		is.slots = slices.Clone(is.slots)
		c.tokens[token] = is
	}
	c.cross, c.queue = slices.Clone(s.cross), slices.Clone(s.queue)
	return &c
}

// clients returns the clients in the queue and in slots.
func (s *Semaphore) clients() (all []string) {
	for _, m := range s.queue {
		client, _, _ := strings.Cut(m.name, " ")
		all = append(all, client)
	}
	for _, is := range s.tokens {
		all = append(all, is.client)
	}
	return all
}

// places returns the slots that are taken. There are none of a nil Semaphore.
func (s *Semaphore) places() map[int64]place {
	if s == nil {
		return nil
	}
	return s.taken
}

// SlotName returns the name of a slot of a semaphore, whose key begins with redlock:slots:.
func SlotName(key string, slot int64) string { return fmt.Sprintf("%s#%d", key, slot) }

func (s *Semaphore) expire(now time.Time) {
	if !s.until.After(now) {
		s.empty()
	}
	if !s.queueUntil.After(now) {
		s.queue = nil
	}
	s.fenced.expire(now)
}

// empty forgets all but the queue and the fence.
func (s *Semaphore) empty() {
	queue, until, fence := s.queue, s.queueUntil, s.fenced
	*s = *newSemaphore()
	s.queue, s.queueUntil, s.fenced = queue, until, fence
}

// A request is a claim for slots, as its commands and its member of the queue have it.
type request struct {
	client, token string
	g, n          int64
	limit, first  string // first is the slot that it prefers, with a ! if its client has released that one
}

// requestOf parses a member of a queue.
func requestOf(name string) (r request, ok bool) {
	n, err := fmt.Sscanf(name, "%s %s %d %d %s %s", &r.client, &r.token, &r.g, &r.n, &r.limit, &r.first)
	return r, err == nil && n == 6
}

func (r request) member() string {
	return fmt.Sprintf("%s %s %d %d %s %s", r.client, r.token, r.g, r.n, r.limit, r.first)
}

// An execution is that of one command on a semaphore.
type execution struct {
	*call
	*Semaphore
	key  string
	ms   int64 // the time
	near int   // how many claims are near

	left []int64 // the slots that a release has left
}

// permits executes a call of slots.lua, and returns the answers.
func (c *call) permits(keys, args []string) any {
	c.id = args[0]
	c.readTerms(args[1+2*len(keys):])
	answers := make([]any, len(keys))
	for i, key := range keys {
		t := &execution{call: c, Semaphore: c.semaphores[key], key: key, ms: c.now.UnixMilli()}
		before := slices.Clone(t.queue)
		answers[i] = t.answer(split(args[1+2*i]), args[2+2*i])
		for _, m := range t.queue[:min(t.near, len(t.queue))] {
			r, _ := requestOf(m.name)
			if at := find(before, m.name); at >= t.near && before[at].score == m.score && !c.young(m, r.g) { // else it has polled, or polls soon
				t.tell(m.name)
			}
		}
	}
	if len(keys) == 1 {
		return answers[0]
	}
	return answers
}

// nearOf returns how many claims are near for a limit.
func nearOf(limit int64) int { return int(max(3, min(limit, 16))) }

// answer executes the command.
func (t *execution) answer(w word, token string) any {
	switch w.verb {
	case "renew":
		t.near = nearOf(16)
		return t.renew(token, number(w.arg(0)), w.arg(1))
	case "fence", "commit":
		t.near = nearOf(16)
		return t.commit(w, token)
	case "release":
		t.near = nearOf(number(w.arg(0)))
		return t.release(request{t.id, token, number(w.arg(3)), number(w.arg(1)), w.arg(0), w.arg(2)})
	}
	r := request{t.id, token, number(w.arg(4)), number(w.arg(2)), w.arg(1), w.arg(3)}
	life, slots := number(w.arg(0)), slotsOf(w.arg(6))
	t.near = nearOf(number(r.limit))
	switch w.verb {
	case "aim":
		_, fresh := t.aim(r, life, slots, true)
		return t.state(r, slots, fresh, 0)
	case "heal":
		if stands, _ := t.aim(r, life, slots, false); stands {
			return int64(1)
		}
		return int64(0)
	}
	return t.register(r, w.verb, life, w.arg(5), slots)
}

// slotsOf parses a list of slots.
func slotsOf(list string) (slots []int64) {
	for text := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' }) {
		slots = append(slots, number(text))
	}
	return slots
}

func listOf(slots []int64) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(slots), "[]"), " ", ",")
}

// store notes what is known of a token, unless it stands nowhere and has not aimed.
func (t *execution) store(token string, is standing) {
	if len(is.slots) == 0 && !is.aimed {
		delete(t.tokens, token)
		return
	}
	t.tokens[token], t.limit = is, is.limit
}

// grant gives a slot to a claim that is known, and tells it. All its slots live for g at least from now on.
func (t *execution) grant(slot int64, token string) {
	is := t.tokens[token]
	until := t.ms + number(is.g)
	for _, s := range is.slots {
		t.prolong(s, until)
	}
	t.taken[slot] = place{token, until}
	is.slots = append(slices.Clone(is.slots), slot)
	t.store(token, is)
	t.tellSlots(is.client, token, is.slots)
}

func (t *execution) tellSlots(client, token string, slots []int64) {
	t.publish(client, "* %s %s * %s %s", token, t.run(), listOf(slots), t.key)
}

// tell tells a claim in the queue that it is near.
func (t *execution) tell(name string) {
	if r, ok := requestOf(name); ok {
		t.told = append(t.told, message{r.client, "= " + r.token + " " + t.key})
	}
}

// prolong lets a slot live until then at least.
func (t *execution) prolong(slot, until int64) {
	if p := t.taken[slot]; p.until < until {
		t.taken[slot] = place{p.token, until}
	}
}

// vacate has a token leave a slot, which goes to the token that wishes it, or to a partner that has not aimed, or becomes free.
func (t *execution) vacate(slot int64, token, partner string) {
	if w, wished := t.wishes[slot]; wished {
		delete(t.wishes, slot)
		is, known := t.tokens[w.token]
		switch {
		case known && w.token != token && w.until > t.ms && w.claim:
			t.grant(slot, w.token)
			return
		case known && w.token != token && w.until > t.ms:
			t.taken[slot] = place{w.token, w.until}
			is.slots = append(slices.Clone(is.slots), slot)
			t.store(w.token, is)
			return
		case known && len(is.slots) == 0: // it stands nowhere, and has no wish
			delete(t.tokens, w.token)
		}
	}
	if is, known := t.tokens[partner]; known && !is.aimed {
		t.grant(slot, partner)
		return
	}
	delete(t.taken, slot)
}

// free returns n free slots, or nil. None is free while as many are taken as the limit allows. Those that a release has just left are given first, and then
// the first, if it is one. Behind it they are in ascending order, from its byte of the bitmap on.
func (t *execution) free(n int64, limit string, first int64) (slots []int64) {
	most := number(limit)
	if int64(len(t.taken))+n > most {
		return nil
	}
	slots = slices.Clone(t.left)
	from := int64(0)
	if first >= 0 && first < most {
		slots, from = append(slots, first), first&^7
	}
	for i := range most {
		slots = append(slots, (from+i)%most)
	}
	found := []int64{}
	for _, slot := range slots {
		if _, taken := t.taken[slot]; !taken && slot < most && !slices.Contains(found, slot) && int64(len(found)) < n {
			found = append(found, slot)
		}
	}
	return found
}

// state returns the answer to a claim.
func (t *execution) state(r request, asked []int64, fresh bool, other int64) any {
	isNew := int64(0)
	if fresh {
		isNew = 1
	}
	if is := t.tokens[r.token]; len(is.slots) > 0 {
		least := t.taken[is.slots[0]].until
		for _, slot := range is.slots {
			least = min(least, t.taken[slot].until)
		}
		return []any{2 + max(least-t.ms, 0), listOf(is.slots), t.standing(asked), isNew, other, int64(0)}
	}
	left := int64(0)
	for _, p := range t.taken {
		if until := max(p.until-t.ms, 0); left == 0 || until < left {
			left = until
		}
	}
	rank := max(find(t.queue, r.member()), 0)
	return []any{-2 - left, "", t.standing(asked), isNew, other, int64(rank)}
}

// standing says who stands in some slots.
func (t *execution) standing(asked []int64) string {
	var all []string
	for _, slot := range asked {
		if p, taken := t.taken[slot]; taken {
			all = append(all, fmt.Sprintf("%d=%s", slot, p.token[:min(16, len(p.token))]))
		}
	}
	return strings.Join(all, " ")
}

// register executes the command of a claim to be given slots, or to join the queue.
func (t *execution) register(r request, verb string, life int64, waited string, asked []int64) any {
	purged := t.purge()
	other := int64(0)
	if verb == "register" && t.limit != r.limit {
		other = number(t.limit)
	}
	if waited != "-" {
		t.call.note()
	}
	if _, known := t.tokens[r.token]; known {
		return t.state(r, asked, false, other)
	}
	if len(t.queue) == 0 || t.queue[0].score >= aside {
		if slots := t.free(r.n, r.limit, number(r.first)); slots != nil {
			t.give(r, slots, life)
			return []any{int64(1), listOf(slots), t.standing(asked), int64(1), other, int64(0)}
		}
	}
	fresh := false
	if waited != "-" {
		fresh, _ = t.enqueue(&t.queue, verb, r.member(), number(waited))
	}
	if purged || verb == "again" {
		t.pass(true)
	}
	return t.state(r, asked, fresh, other)
}

// aim has a token leave the queue and all slots but some, and stand in these or wish them. It reports whether the token stands in all of them, and whether
// it was not known.
func (t *execution) aim(r request, life int64, slots []int64, claim bool) (stands, fresh bool) {
	queue, n := remove(t.queue, r.member())
	t.queue = queue
	t.purge()
	was, known := t.tokens[r.token]
	until, have, partner := t.ms+life, []int64{}, ""
	for _, slot := range slots {
		switch p, taken := t.taken[slot]; {
		case !taken:
			t.taken[slot] = place{r.token, until}
			have = append(have, slot)
		case p.token == r.token:
			t.prolong(slot, until)
			have = append(have, slot)
		default:
			t.wishes[slot] = wish{r.token, until, claim}
			partner = p.token
			if !slices.Contains(t.cross, slot) {
				t.cross = append(t.cross, slot)
			}
		}
	}
	t.store(r.token, standing{r.client, fmt.Sprint(r.g), r.limit, true, have})
	for _, slot := range was.slots {
		if !slices.Contains(slots, slot) {
			t.vacate(slot, r.token, partner)
		}
	}
	t.pass(true)
	return slices.Equal(have, slots), !known && n == 0
}

// renew executes the command of a holder to stand in its slots for longer, and in no others.
func (t *execution) renew(token string, ttl int64, list string) any {
	is, known := t.tokens[token]
	mine := slotsOf(list)
	for _, slot := range mine {
		if p := t.taken[slot]; !known || p.token != token || p.until <= t.ms {
			return int64(0)
		}
	}
	for _, slot := range mine {
		t.taken[slot] = place{token, t.ms + ttl}
	}
	if had := is.slots; listOf(had) != list {
		is.slots = mine
		t.store(token, is)
		for _, slot := range had {
			if !slices.Contains(mine, slot) {
				t.vacate(slot, token, "")
			}
		}
		t.pass(true)
	}
	if len(t.queue) > 0 {
		return int64(2)
	}
	return int64(1)
}

// commit executes the commands that raise the fence, if the token stands in some slots, which then live for longer.
func (t *execution) commit(w word, token string) any {
	until, mine := t.ms+number(w.arg(0)), []int64{}
	for _, slot := range slotsOf(w.arg(1)) {
		if p := t.taken[slot]; p.token == token && p.until > t.ms {
			mine = append(mine, slot)
		}
	}
	if len(mine) == 0 {
		return []any{"", int64(0)}
	}
	var last int64
	if w.verb == "fence" {
		last = t.nextFence(&t.fenced, w.arg(2))
	} else if fence, err := t.raiseTo(&t.fenced, number(w.arg(2))); err != nil {
		return err
	} else {
		last = fence
	}
	for _, slot := range mine {
		t.prolong(slot, until)
	}
	return []any{listOf(mine), last}
}

// release ends a claim or a lease.
func (t *execution) release(r request) any {
	t.queue, _ = remove(t.queue, r.member())
	t.purge()
	is := t.tokens[r.token]
	delete(t.tokens, r.token)
	for _, slot := range is.slots {
		t.vacate(slot, r.token, "")
		t.left = append(t.left, slot)
	}
	t.pass(false)
	if len(t.taken) == 0 { // nothing else is kept then
		t.empty()
	}
	if len(is.slots) > 0 {
		return int64(1)
	}
	return int64(0)
}

// check compares what a semaphore is with what it should be, and takes over when its keys expire.
func (s *Semaphore) check(is *Semaphore) error {
	latest := int64(0)
	for _, p := range is.taken {
		latest = max(latest, p.until)
	}
	switch {
	case !maps.Equal(is.taken, s.taken):
		return fmt.Errorf("the slots are %v, want %v", is.taken, s.taken)
	case !maps.Equal(is.wishes, s.wishes):
		return fmt.Errorf("the wishes are %v, want %v", is.wishes, s.wishes)
	case fmt.Sprint(is.tokens) != fmt.Sprint(s.tokens):
		return fmt.Errorf("the tokens are %v, want %v", is.tokens, s.tokens)
	case len(s.tokens) > 0 && is.limit != s.limit:
		return fmt.Errorf("the limit is %s, want %s", is.limit, s.limit)
	case !slices.Equal(is.cross, s.cross):
		return fmt.Errorf("the slots in which tokens are in the way are %v, want %v", is.cross, s.cross)
	case !slices.Equal(is.queue, s.queue):
		return fmt.Errorf("the queue is %v, want %v", is.queue, s.queue)
	case is.until.UnixMilli() < latest:
		return fmt.Errorf("the record lives until %v, and a slot until %v", is.until, time.UnixMilli(latest))
	}
	s.queueUntil, s.until = is.queueUntil, is.until
	return s.fenced.check(is.fenced)
}

// loadSemaphore reads what a master knows of a semaphore.
func loadSemaphore(call *executed.Call, key string) *Semaphore {
	s := newSemaphore()
	s.fenced = loadFence(call, key)
	name := strings.TrimPrefix(key, slotsPrefix)
	until := func(key string) time.Time { return call.Now.Add(left(call, key)) }
	s.until = until(key)
	ends := map[int64]int64{}
	for _, m := range members(call.Read("ZRANGE", "redlock:until:"+name, "0", "-1", "WITHSCORES")) {
		ends[number(m.name)] = int64(m.score)
	}
	fields := texts(call.Read("HGETALL", key))
	for i := 0; i+1 < len(fields); i += 2 {
		field, value := fields[i], fields[i+1]
		switch {
		case field == "limit":
			s.limit = value
		case field == "crossed":
			s.cross = slotsOf(value)
		case field[0] == '@':
			parts := strings.Split(value, " ")
			s.tokens[field[1:]] = standing{parts[0], parts[1], parts[2], parts[3] == "!", slotsOf(parts[4])}
		case field[0] == 'w':
			parts := strings.Split(value, " ")
			s.wishes[number(field[1:])] = wish{parts[0], number(parts[1]), parts[2] == "1"}
		default:
			s.taken[number(field)] = place{value, ends[number(field)]}
		}
	}
	if s.queue = members(call.Read("ZRANGE", "redlock:permits:"+name, "0", "-1", "WITHSCORES")); len(s.queue) > 0 {
		s.queueUntil = until("redlock:permits:" + name)
	}
	return s
}

// texts returns the texts of a reply that is a list of them.
func texts(reply string) (all []string) {
	parts := strings.Split(reply, "\r\n")
	for i := 2; i < len(parts)-1; i += 2 {
		all = append(all, parts[i])
	}
	return all
}
