package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
)

// printJSON prints what was seen as one line.
func (s *status) printJSON(out io.Writer, seen observation) error {
	type waiter struct {
		Owner  string `json:"owner"`
		Waited int64  `json:"waited_ms"`
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
	all := struct {
		Masters  int      `json:"masters"`
		Need     int      `json:"need"`
		Answered int      `json:"answered"`
		Locks    []lock   `json:"locks"`
		More     int      `json:"more,omitempty"`
		Troubles []string `json:"troubles"`
	}{seen.masters, seen.need, seen.answered, []lock{}, max(seen.more, 0), append([]string{}, seen.troubles(s.masters)...)}
	for _, l := range seen.locks {
		one := lock{Name: l.name, Held: l.Held(), Owner: l.Owner(), MayKeep: l.MayBeKept(), Left: l.Left.Milliseconds(), Masters: l.Masters,
			Fence: l.Fence, Waiting: l.Waiting, Readers: l.Readers, Waiters: []waiter{}}
		if l.Left < 0 {
			one.Left = -1
		}
		for _, w := range l.Waiters {
			one.Waiters = append(one.Waiters, waiter{w.Owner, w.For.Milliseconds()})
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
