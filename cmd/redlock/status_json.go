package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/redlock-go/redlock/internal/holding"
)

// The JSON form of the status. Durations are in ms.
type (
	statusJSON struct {
		Masters  int        `json:"masters"`
		Need     int        `json:"need"`
		Answered int        `json:"answered"`
		Locks    []lockJSON `json:"locks"`

		Semaphores []semaphoreJSON `json:"semaphores"`

		More     int      `json:"more,omitempty"`
		Troubles []string `json:"troubles"`
	}
	lockJSON struct {
		Name    string       `json:"name"`
		Bytes   []byte       `json:"name_base64,omitempty"` // of a name that is not UTF-8, which JSON cannot hold
		Held    bool         `json:"held"`
		Owner   string       `json:"owner"`
		MayKeep bool         `json:"may_keep,omitempty"` // the owner may keep the lock while nobody holds it
		Left    int64        `json:"left_ms"`            // -1: does not expire
		Masters int          `json:"masters"`
		Fence   uint64       `json:"fence"`
		Readers []string     `json:"readers,omitempty"`
		Waiting int          `json:"waiting"`
		Waiters []waiterJSON `json:"waiters"`
		Error   string       `json:"error,omitempty"`
	}
	semaphoreJSON struct {
		Name    string       `json:"name"`
		Bytes   []byte       `json:"name_base64,omitempty"`
		Limits  []int        `json:"limits"` // in use; if there are several, clients differ
		Taken   int          `json:"taken"`
		Slots   []slotJSON   `json:"slots"`
		Waiting int          `json:"waiting"` // calls
		Waiters []waiterJSON `json:"waiters"`
	}
	slotJSON struct {
		Slot    int    `json:"slot"`
		Held    bool   `json:"held"`
		Owner   string `json:"owner"`
		Left    int64  `json:"left_ms"`
		Masters int    `json:"masters"`
		Limit   int    `json:"limit"`
	}
	waiterJSON struct {
		Owner  string `json:"owner"`
		Waited int64  `json:"waited_ms"`
		Reads  bool   `json:"reads,omitempty"`

		Permits int `json:"permits,omitempty"` // of a semaphore: for how many
		Limit   int `json:"limit,omitempty"`
	}
)

// printJSON prints what was seen as one line.
func (s *status) printJSON(out io.Writer, seen observation) error {
	all := statusJSON{
		Masters:    seen.masters,
		Need:       seen.need,
		Answered:   seen.answered,
		Locks:      []lockJSON{},
		Semaphores: []semaphoreJSON{},
		More:       max(seen.more, 0),
		Troubles:   append([]string{}, seen.troubles(s.masters)...),
	}
	for _, l := range seen.locks {
		if l.isSemaphore() {
			all.Semaphores = append(all.Semaphores, l.semaphoreJSON())
		}
		if l.isLock() || !l.isSemaphore() {
			all.Locks = append(all.Locks, l.lockJSON())
		}
	}
	return writeJSON(out, all)
}

func (l *lockOfNames) semaphoreJSON() semaphoreJSON {
	p := l.permits
	s := semaphoreJSON{l.name, notUTF8(l.name), append([]int{}, p.Limits()...), p.Taken, []slotJSON{}, p.Waiting, waitersJSON(p.Queue)}
	for _, slot := range p.Slots {
		s.Slots = append(s.Slots, slotJSON{slot.Number, slot.Held(), slot.Owner(), slot.Left.Milliseconds(), slot.Masters, slot.Limit})
	}
	return s
}

func (l *lockOfNames) lockJSON() lockJSON {
	j := lockJSON{Name: l.name, Bytes: notUTF8(l.name), Held: l.Held(), Owner: l.Owner(), MayKeep: l.MayBeKept(), Left: l.Left.Milliseconds(), Masters: l.Masters,
		Fence: l.Fence, Waiting: l.Waiting, Readers: l.Readers, Waiters: waitersJSON(l.Queue)}
	if l.problem != nil {
		j.Error = l.problem.Error()
	}
	return j
}

// notUTF8 returns the bytes of a name if it is not UTF-8: in JSON, several such names may look the same.
func notUTF8(name string) []byte {
	if utf8.ValidString(name) {
		return nil
	}
	return []byte(name)
}

func waitersJSON(q holding.Queue) []waiterJSON {
	all := []waiterJSON{}
	for _, w := range q.Waiters {
		all = append(all, waiterJSON{w.Owner(), w.For.Milliseconds(), w.Reads, w.Permits, w.Limit})
	}
	return all
}

// writeJSON writes v as one line. Characters that a terminal could obey are escaped.
func writeJSON(out io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var line strings.Builder
	for _, r := range string(text) {
		if unicode.IsGraphic(r) {
			line.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&line, `\u%04x`, unit)
		}
	}
	_, err = fmt.Fprintln(out, line.String())
	return err
}
