package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/history"
)

// permitLimit is the limit of each semaphore.
const permitLimit = 3

// permitUses are the uses of the workload of semaphores: calls for two permits are among those for one.
var permitUses = []use{
	{Names: []string{"permits"}, Permits: 1, Goroutines: 3},
	{Names: []string{"permits"}, Permits: 2, Goroutines: 1},
	{Names: []string{"permits-long"}, Permits: 1, Goroutines: 2, Long: true},
	{Names: []string{"permits-long"}, Permits: 2, Goroutines: 1, Long: true},
}

// usesOf returns the uses of one client. They are those of all clients, but for the fences of permits: all permits of one of the semaphores have
// fences. Those of the other have them if one permit is acquired by a client with an odd index, or two by another client. So
// permits with and without fences are acquired by each client, and by different clients.
func (c config) usesOf(client int) []use {
	uses := slices.Clone(c.uses())
	for i, u := range uses {
		if u.Permits > 0 {
			every := u.Long == (c.seed%2 == 0)
			uses[i].Fenced = c.subject.fences && (every || client%2 == u.Permits%2)
		}
	}
	return uses
}

// ourPermits are the permits of one goroutine.
type ourPermits struct {
	semaphore *redlock.Semaphore
	n         int

	permit *redlock.Permit // the last one that a call has returned
	inner  context.Context // of the function of Do, while it runs; Do does not show its permit
}

func (l ourLocks) permits(w wanted) mutex {
	s, err := l.NewSemaphore(w.names[0], permitLimit, &redlock.LockOptions{TTL: l.traits.TTL, Fencing: w.fenced})
	if err != nil {
		panic(err)
	}
	return &ourPermits{semaphore: s, n: w.permits}
}

func (p *ourPermits) lock(ctx context.Context) (err error) {
	p.permit, err = p.semaphore.AcquireN(ctx, p.n)
	return err
}

func (p *ourPermits) try(ctx context.Context) (err error) {
	p.permit, err = p.semaphore.TryAcquire(ctx)
	return err
}

func (p *ourPermits) do(ctx context.Context, f func()) error {
	return p.semaphore.DoN(ctx, p.n, func(ctx context.Context) error {
		p.inner = ctx
		defer func() { p.inner = nil }()
		f()
		return nil
	})
}

func (p *ourPermits) held() bool {
	if p.inner != nil {
		return p.inner.Err() == nil
	}
	return p.permit.Valid()
}

func (p *ourPermits) token() string {
	if p.inner != nil {
		return ""
	}
	return p.permit.Token()
}

func (p *ourPermits) slots() []int {
	if p.inner != nil {
		return nil
	}
	return p.permit.Slots()
}

func (p *ourPermits) unlock() error { return p.permit.ReleaseContext(context.Background()) }
func (p *ourPermits) extend()       {}

func (p *ourPermits) fence() uint64 {
	if p.inner != nil {
		return 0
	}
	return p.permit.Fence()
}

// The kinds of violations of semaphores.
const (
	tooMany    = "too many holders"
	wrongSlots = "slots wrong"
	notAsked   = "a fence that was not asked for"
)

func slotName(semaphore string, slot any) string { return fmt.Sprint(semaphore, "#", slot) }

// checked returns the names whose histories are those of locks. A slot of a semaphore is such a name.
func (c config) checked() (all []lockName) {
	for _, n := range c.names() {
		if n.Limit == 0 {
			all = append(all, n)
		}
		for slot := range n.Limit {
			all = append(all, lockName{Name: slotName(n.Name, slot), Limit: n.Limit})
		}
	}
	return all
}

// bySlot returns the operations. A permit has the names of its slots. The slots of a permit of Do are not known: it
// counts as one of the semaphore only.
func (c config) bySlot(ops []history.Operation) []history.Operation {
	all := make([]history.Operation, len(ops))
	for i, o := range ops {
		var names []string
		for slot := range strings.FieldsSeq(o.Slots) {
			names = append(names, slotName(o.Name, slot))
		}
		if names != nil {
			o.Name = strings.Join(names, " ")
		}
		all[i] = o
	}
	return all
}

// permitsOf returns how many permits an operation asked for; 0: it asked for a lock.
func (c config) permitsOf(o history.Operation) int {
	if i, uses := useOf(o), c.uses(); i < len(uses) {
		return uses[i].Permits
	}
	return 0
}

// fenced reports whether the permits of an operation must have a fence. Those of a client of an earlier commit may have none.
func (c config) fenced(o history.Operation) bool {
	i, uses := useOf(o), c.usesOf(o.Client)
	return i < len(uses) && uses[i].Fenced && (o.Fence != 0 || !c.old(o.Client))
}

// fencesWrong returns the violations of the order of fences of one name. The fences of permits rise by slot: the name is that of the slot. Its
// holders without fences do not count.
func (c config) fencesWrong(n lockName, ops []history.Operation) []history.Violation {
	switch {
	case n.Limit > 0:
		ops = slices.DeleteFunc(slices.Clone(ops), func(o history.Operation) bool { return !c.fenced(o) })
	case !n.Fenced:
		return nil
	}
	return history.Fences(ops)
}

// countFences returns how many acquisitions have a fence, and how many have none. Those of Do, which are not known, do not count.
func countFences(ops []history.Operation) (fences, none int) {
	for _, o := range ops {
		switch {
		case o.Fence != 0:
			fences++
		case o.Entered != 0 && o.How != byDo:
			none++
		}
	}
	return fences, none
}

// judgePermits returns the violations of semaphores, but for those of single slots.
func (c config) judgePermits(ops []history.Operation) (all []history.Violation) {
	byName := history.PerName(ops)
	for _, n := range c.names() {
		if n.Limit == 0 {
			continue
		}
		_, over := overLimit(n, byName[n.Name], c.permitsOf)
		_, untold := history.Losses(byName[n.Name])
		all = append(append(all, over...), untold...)
		for _, o := range byName[n.Name] {
			if text := slotsWrong(o, c.permitsOf(o), n.Limit); text != "" {
				all = append(all, history.Violation{Kind: wrongSlots, At: o.Entered, Name: n.Name, Text: fmt.Sprintf("%v has the slots %q of %q: %s", &o, o.Slots, n.Name, text)})
			}
			if o.Fence != 0 && !c.fenced(o) {
				all = append(all, history.Violation{Kind: notAsked, At: o.Entered, Name: n.Name, Text: fmt.Sprintf("%v has the fence %d of %q, and asked for none", &o, o.Fence, n.Name)})
			}
		}
	}
	return all
}

// overLimit returns how many permits of a semaphore were valid at one moment at most, and a violation for each that entered while that
// was above the limit. Like history.Overlaps it counts a permit from its entering to the last moment at which it was seen to be valid.
func overLimit(name lockName, ops []history.Operation, permits func(history.Operation) int) (most int, all []history.Violation) {
	var valid []history.Operation // those that have entered, and may be valid when the next one enters
	for _, o := range history.ConfirmedOps(ops) {
		still := valid[:0]
		for _, b := range valid {
			if b.Held > o.Entered {
				still = append(still, b)
			}
		}
		valid = append(still, o)
		n, holders := 0, make([]string, 0, len(valid))
		for _, b := range valid {
			n += permits(b)
			holders = append(holders, fmt.Sprintf("%v has %d (slots %q) from %.6f to %.6f", &b, permits(b), b.Slots, history.Seconds(b.Entered), history.Seconds(b.Held)))
		}
		most = max(most, n)
		if n > name.Limit {
			all = append(all, history.Violation{Kind: tooMany, At: o.Entered, Name: name.Name,
				Text: fmt.Sprintf("%d permits of %q were valid at %.6f, and the limit is %d: %s", n, name.Name, history.Seconds(o.Entered), name.Limit, strings.Join(holders, ", "))})
		}
	}
	return most, all
}

// slotsWrong says why an operation for n permits cannot have its slots, or returns "".
func slotsWrong(o history.Operation, n, limit int) string {
	slots := strings.Fields(o.Slots)
	if o.Entered == 0 || o.How == byDo {
		return ""
	}
	if len(slots) != n {
		return fmt.Sprintf("it asked for %d permits", n)
	}
	free := make(map[string]bool)
	for slot := range limit {
		free[fmt.Sprint(slot)] = true
	}
	for _, slot := range slots {
		if !free[slot] {
			return fmt.Sprintf("slot %s is there twice, or is not below the limit", slot)
		}
		delete(free, slot)
	}
	return ""
}

// remains is a script that returns the keys of a semaphore that exist, with what is in them. Slots that have expired may remain: the
// next command of any client removes them, and the keys expire.
var remains = redis.NewScript(4, `
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
local expired = redis.call('ZCOUNT', KEYS[2], '-inf', now)
local all = {}
for i, read in ipairs({'HGETALL', 'ZRANGE', 'STRLEN', 'ZRANGE'}) do
  local remains = redis.call('EXISTS', KEYS[i]) == 1
  if remains and (i == 4 or expired == 0 or expired < redis.call('ZCARD', KEYS[2])) then
    local value = read == 'ZRANGE' and redis.call(read, KEYS[i], 0, -1, 'WITHSCORES') or redis.call(read, KEYS[i])
    all[#all + 1] = KEYS[i] .. ' with ' .. (type(value) == 'table' and table.concat(value, ' ') or value .. ' bytes')
  end
end
return all`)

// permitsLeft returns what a master has of a semaphore that nobody uses.
func permitsLeft(conn redis.Conn, name string, key any, master int) (all []history.Violation, err error) {
	var keys []any
	for _, part := range []string{"slots", "until", "taken", "permits"} {
		keys = append(keys, fmt.Sprintf("redlock:%s:%v", part, key))
	}
	left, err := redis.Strings(remains.Do(conn, keys...))
	for _, text := range left {
		all = append(all, history.Violation{Kind: keyLeft, At: history.Now(), Name: name,
			Text: fmt.Sprintf("master %d has %s, though all clients have released and closed", master, text)})
	}
	return all, err
}
