package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/wire"
)

// What is shown of a lock, of those who wait for it, and of a semaphore and its slots: its columns in the table, their help, and its fields in
// JSON. The facts are decoded by package wire, and those of several masters are combined by package holding.

// fieldsHelp explains the table.
const fieldsHelp = `
  OWNER    who holds the lock: host/pid, or what Options.Owner or
           redlock run --owner says; unknown if the client does not say.
           "may keep it": the client has LockOptions.Keep, so perhaps nobody
           holds the lock any more. Only that client knows. A client that
           locks finds out: it gets a lock that is kept at once
  LEFT     how long the lock lasts unless the holder renews it. Run status
           twice: if LEFT has risen, the holder is alive and renews
  MASTERS  how many of the masters agree; below a majority nobody holds it
  FENCE    the lock's last fence; a handover inside a process adds a little
  WAITING  how many clients wait, who, for how long, and whether to read.
           Clients without a subscription are not seen.

A semaphore has one line with how many of its permits are held, the largest
limit in use, and how many calls wait. Each slot that is taken has a line of
its own, with a name such as NAME#3, which redlock break accepts. If clients
use different limits, a line says so.
`

// locksTable returns the table of locks. If it is wider than a screen with the clients that wait, these stand
// below their lock. Locks with another holder than watch knew are marked, unless watch is nil.
func locksTable(seen observation, watch *watching) sheet {
	s := sheet{head: []string{"NAME", "OWNER", "LEFT", "MASTERS", "FENCE", "WAITING"}}
	queues := make(map[int]holding.Queue) // by row
	for _, lock := range seen.locks {
		if lock.isLock() || !lock.isSemaphore() {
			row := sheetRow{cells: lock.cells(seen.masters)}
			if lock.problem != nil {
				row.remarks = []string{lock.problem.Error()}
			}
			queues[len(s.rows)] = lock.Queue
			s.rows = append(s.rows, row)
		}
		if lock.isSemaphore() {
			queues[len(s.rows)] = lock.permits.Queue
			s.rows = append(s.rows, lock.permitRows(seen.masters)...)
		}
	}
	if watch != nil {
		watch.mark(&s)
	}
	if total(s.widths()) <= screenWidth {
		return s
	}
	for i, queue := range queues {
		if queue.Waiting > 0 {
			s.rows[i].cells[5] = strconv.Itoa(queue.Waiting)
		}
		if len(queue.Waiters) > 0 {
			s.rows[i].remarks = append(s.rows[i].remarks, "waiting: "+waiters(queue))
		}
	}
	return s
}

// The JSON forms of a lock, and of who holds a lock or a slot. Durations are in ms.
type (
	lockJSON struct {
		nameJSON
		holderJSON
		Fence   uint64   `json:"fence"`
		Readers []string `json:"readers,omitempty"`
		queueJSON
		Error string `json:"error,omitempty"`
	}
	nameJSON struct {
		Name  string `json:"name"`
		Bytes []byte `json:"name_base64,omitempty"` // of a name that is not UTF-8: in JSON, several such names may look the same
	}
	holderJSON struct {
		Held    bool   `json:"held"`
		Owner   string `json:"owner"`
		MayKeep bool   `json:"may_keep,omitempty"` // the owner may keep the lock while nobody holds it
		Left    int64  `json:"left_ms"`
		Masters int    `json:"masters"`
	}
)

func (l lockOfNames) lockJSON() lockJSON {
	j := lockJSON{nameJSON: l.nameJSON(), holderJSON: l.holderJSON(), Fence: l.Fence, Readers: l.Readers, queueJSON: queueJSONOf(l.Queue)}
	if l.problem != nil {
		j.Error = l.problem.Error()
	}
	return j
}

func (l lockOfNames) nameJSON() nameJSON {
	if utf8.ValidString(l.name) {
		return nameJSON{Name: l.name}
	}
	return nameJSON{l.name, []byte(l.name)}
}

func (l lockOfNames) holderJSON() holderJSON {
	return holderJSON{l.Held(), l.Owner(), l.MayBeKept(), l.Left.Milliseconds(), l.Masters}
}

// cells returns the line of a lock or a slot in the table.
func (l lockOfNames) cells(masters int) []string {
	owner, left, fence := "-", "-", "-"
	if l.Token != "" {
		owner, left = l.owner(), short(l.Left)
		switch {
		case !l.Held():
			owner += " (no majority)"
		case l.MayBeKept():
			owner += " (may keep it)"
		}
	}
	if l.Fence > 0 {
		fence = fmt.Sprint(l.Fence)
	}
	return []string{l.title(), owner, left, fmt.Sprintf("%d of %d", l.Masters, masters), fence, waiting(l.Queue)}
}

// title returns the name, with the slots of a permit behind it: as redlock break names it, if there is one slot.
func (l lockOfNames) title() string {
	if l.slots == nil {
		return shown(l.name)
	}
	return shown(l.name) + "#" + joined(l.slots, ",")
}

// owner returns who has the token, or how many clients read, and some of them.
func (l lockOfNames) owner() string {
	if l.Token != wire.ReadersMarker {
		return ownerOr(l.Owner())
	}
	text := fmt.Sprintf("%d reading", len(l.Readers))
	if len(l.Readers) > 0 {
		text += ": " + someOf(l.Readers, len(l.Readers), ownerOr)
	}
	return text
}

// ownerOr returns an owner, or that it is unknown.
func ownerOr(owner string) string { return cmp.Or(owner, "unknown") }

// The JSON forms of who waits for a lock or for permits.
type (
	queueJSON struct {
		Waiting int          `json:"waiting"` // clients; of a semaphore: calls
		Waiters []waiterJSON `json:"waiters"`
	}
	waiterJSON struct {
		Owner  string `json:"owner"`
		Waited int64  `json:"waited_ms"`
		Reads  bool   `json:"reads,omitempty"`

		Permits int `json:"permits,omitempty"` // of a semaphore: for how many
		Limit   int `json:"limit,omitempty"`
	}
)

func queueJSONOf(q holding.Queue) queueJSON {
	j := queueJSON{q.Waiting, []waiterJSON{}}
	for _, w := range q.Waiters {
		j.Waiters = append(j.Waiters, waiterJSON{w.Owner(), w.For.Milliseconds(), w.Reads, w.Permits, w.Limit})
	}
	return j
}

// waiterText renders one who waits.
func waiterText(w wire.Waiter) string {
	text := ownerOr(w.Owner()) + " " + short(w.For)
	if w.Reads {
		text += " to read"
	}
	if w.Permits > 1 {
		text += fmt.Sprintf(" for %d", w.Permits)
	}
	return text
}

// waiters renders some of those who wait.
func waiters(q holding.Queue) string { return someOf(q.Waiters, q.Waiting, waiterText) }

// waiting renders how many wait, and some of them. If many wait, it may be that no master lists those that another one lists, and none is known.
func waiting(q holding.Queue) string {
	if q.Waiting == 0 {
		return "-"
	} else if len(q.Waiters) == 0 {
		return strconv.Itoa(q.Waiting)
	}
	return fmt.Sprintf("%d: %s", q.Waiting, waiters(q))
}

// The JSON forms of a semaphore and of its slots.
type (
	semaphoreJSON struct {
		nameJSON
		Limits []int      `json:"limits"` // in use; if there are several, clients differ
		Taken  int        `json:"taken"`
		Slots  []slotJSON `json:"slots"`
		queueJSON
	}
	slotJSON struct {
		Slot int `json:"slot"`
		holderJSON
		Limit int `json:"limit"`
	}
)

func (l lockOfNames) semaphoreJSON() semaphoreJSON {
	p := l.permits
	j := semaphoreJSON{l.nameJSON(), append([]int{}, p.Limits()...), p.Taken, []slotJSON{}, queueJSONOf(p.Queue)}
	for _, s := range p.Slots {
		j.Slots = append(j.Slots, slotJSON{s.Number, l.slot(s).holderJSON(), s.Limit})
	}
	return j
}

// slot returns a slot of the semaphore like a lock of its own.
func (l lockOfNames) slot(s holding.Slot) lockOfNames {
	return lockOfNames{name: l.name, slots: []int{s.Number}, Holding: s.Holding}
}

// permitRows returns the lines of a semaphore in the table: one for it, and one for each slot that is taken.
func (l lockOfNames) permitRows(masters int) []sheetRow {
	more := l.permits.Taken - len(l.permits.Slots)
	held, limits := more, l.permits.Limits()
	var slots []sheetRow
	for _, s := range l.permits.Slots {
		row := sheetRow{cells: l.slot(s).cells(masters)}
		if len(limits) > 1 && s.Limit > 0 {
			row.cells[1] += fmt.Sprintf(" (limit %d)", s.Limit)
		}
		if s.Held() {
			held++
		}
		slots = append(slots, row)
	}
	of, remarks := "?", []string(nil)
	if len(limits) > 0 {
		of = strconv.Itoa(slices.Max(limits))
	}
	if len(limits) > 1 {
		remarks = append(remarks, fmt.Sprintf("clients use the limits %s: the largest counts, so give every client the same", joined(limits, ", ")))
	}
	if more > 0 {
		remarks = append(remarks, fmt.Sprintf("%d more slots are not shown", more))
	}
	cells := []string{l.title(), fmt.Sprintf("%d of %s permits", held, of), "-", "-", "-", waiting(l.permits.Queue)}
	return append([]sheetRow{{cells, remarks}}, slots...)
}

func joined(numbers []int, by string) string {
	var all []string
	for _, n := range numbers {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, by)
}

// someOf renders some of n clients, of which the first are listed.
func someOf[T any](listed []T, n int, render func(T) string) string {
	const most = 3
	var texts []string
	for _, one := range listed[:min(len(listed), most)] {
		texts = append(texts, render(one))
	}
	text := strings.Join(texts, ", ")
	if n > len(texts) {
		text += ", …"
	}
	return text
}
