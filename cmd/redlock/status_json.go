package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/redlock-go/redlock/internal/holding"
)

// printJSON prints what was seen as one line.
func (s *status) printJSON(out io.Writer, seen observation) error {
	type waiter struct {
		Owner  string `json:"owner"`
		Waited int64  `json:"waited_ms"`

		Permits int `json:"permits,omitempty"` // of a semaphore: for how many
		Limit   int `json:"limit,omitempty"`
	}
	type lock struct {
		Name    string   `json:"name"`
		Held    bool     `json:"held"`
		Owner   string   `json:"owner"`
		MayKeep bool     `json:"may_keep,omitempty"` // the owner may keep the lock while nobody holds it
		Left    int64    `json:"left_ms"`            // -1: does not expire
		Masters int      `json:"masters"`
		Fence   uint64   `json:"fence"`
		Readers []string `json:"readers,omitempty"`
		Waiting int      `json:"waiting"`
		Waiters []waiter `json:"waiters"`
		Error   string   `json:"error,omitempty"`
	}
	type slot struct {
		Slot    int    `json:"slot"`
		Held    bool   `json:"held"`
		Owner   string `json:"owner"`
		Left    int64  `json:"left_ms"`
		Masters int    `json:"masters"`
		Limit   int    `json:"limit"`
	}
	type semaphore struct {
		Name    string   `json:"name"`
		Limits  []int    `json:"limits"` // in use; if there are several, clients differ
		Taken   int      `json:"taken"`
		Slots   []slot   `json:"slots"`
		Waiting int      `json:"waiting"` // calls
		Waiters []waiter `json:"waiters"`
	}
	all := struct {
		Masters  int    `json:"masters"`
		Need     int    `json:"need"`
		Answered int    `json:"answered"`
		Locks    []lock `json:"locks"`

		Semaphores []semaphore `json:"semaphores"`

		More     int      `json:"more,omitempty"`
		Troubles []string `json:"troubles"`
	}{seen.masters, seen.need, seen.answered, []lock{}, []semaphore{}, max(seen.more, 0), append([]string{}, seen.troubles(s.masters)...)}
	waitersOf := func(q holding.Queue) []waiter {
		all := []waiter{}
		for _, w := range q.Waiters {
			all = append(all, waiter{w.Owner, w.For.Milliseconds(), w.Permits, w.Limit})
		}
		return all
	}
	for _, l := range seen.locks {
		if p := l.permits; l.isSemaphore() {
			one := semaphore{l.name, append([]int{}, p.Limits()...), p.Taken, []slot{}, p.Waiting, waitersOf(p.Queue)}
			for _, s := range p.Slots {
				one.Slots = append(one.Slots, slot{s.Number, s.Held(), s.Owner(), s.Left.Milliseconds(), s.Masters, s.Limit})
			}
			all.Semaphores = append(all.Semaphores, one)
			if !l.isLock() {
				continue
			}
		}
		one := lock{Name: l.name, Held: l.Held(), Owner: l.Owner(), MayKeep: l.MayBeKept(), Left: l.Left.Milliseconds(), Masters: l.Masters,
			Fence: l.Fence, Waiting: l.Waiting, Readers: l.Readers, Waiters: waitersOf(l.Queue)}
		if l.Left < 0 {
			one.Left = -1
		}
		if l.problem != nil {
			one.Error = l.problem.Error()
		}
		all.Locks = append(all.Locks, one)
	}
	return writeJSON(out, all)
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
