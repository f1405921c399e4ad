package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/wire"
)

// How often --watch shows the locks.
const (
	watchEvery = time.Second            // without a value
	watchLeast = 100 * time.Millisecond // so that the masters have other things to do
)

// markedFor is how long a lock is marked whose holder has changed: long enough to be seen.
const markedFor = 5 * time.Second

// A watchInterval is the value of --watch, which may be given without one. Zero: once.
type watchInterval time.Duration

// IsBoolFlag tells the command line parser that --watch may have no value, which it calls "true".
func (*watchInterval) IsBoolFlag() bool { return true }

// Set takes in the value.
func (w *watchInterval) Set(text string) error {
	if text == "true" {
		*w = watchInterval(watchEvery)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < watchLeast {
		err = fmt.Errorf("want %v at least", watchLeast)
	}
	*w = watchInterval(d)
	return err
}

// Get returns the value.
func (w *watchInterval) Get() any { return w }

func (w *watchInterval) String() string { return "" } // the help says what the default is

// A watching remembers who held the locks, so that changes can be marked.
type watching struct {
	every   time.Duration
	holders map[string]string    // by the title of the lock
	changed map[string]time.Time // when another one was seen
	seen    bool                 // at least once
}

// look takes in who holds the locks at a time.
func (w *watching) look(seen observation, at time.Time) {
	holders := make(map[string]string)
	for _, lock := range seen.locks {
		holders[lock.title()] = takenBy(lock)
		for _, slot := range lock.permits.Slots {
			one := lock.slot(slot)
			holders[one.title()] = takenBy(one)
		}
	}
	if seen.answered < seen.need {
		return // nothing is known: a lock that is not seen may be held as before
	}
	changed := make(map[string]time.Time)
	for title, holder := range holders {
		if was, old := w.changed[title]; old && at.Sub(was) < max(markedFor, 2*w.every) {
			changed[title] = was
		}
		if w.seen && w.holders[title] != holder {
			changed[title] = at
		}
	}
	w.holders, w.changed, w.seen = holders, changed, true
}

// takenBy returns what differs between two holders, also of the same client; "" for none.
func takenBy(lock lockOfNames) string {
	switch {
	case !lock.Held():
		return ""
	case lock.Token == wire.ReadersMarker:
		return "readers " + strings.Join(slices.Sorted(slices.Values(lock.Readers)), " ")
	}
	return lock.Token
}

// mark marks the rows of locks whose holders have changed.
func (w *watching) mark(table *sheet) {
	for i, row := range table.rows {
		if _, changed := w.changed[row.cells[0]]; changed {
			table.rows[i].cells[1] = "* " + row.cells[1]
		}
	}
}

// footer is the last line of each table.
func (w *watching) footer(marked bool) string {
	text := fmt.Sprintf("Every %v, for as much as one redlock status costs the masters. Ctrl-C ends it.", w.every)
	if marked {
		text = "* another holder than before\n" + text
	}
	return "\n" + fold(text, "", "  ")
}

// A screen shows one text after the other: in its place on a terminal, and below it elsewhere.
type screen struct {
	out      io.Writer
	terminal bool
	size     func() (rows, columns int) // of the terminal
	shown    bool
}

func newScreen(out io.Writer, redraw bool) *screen {
	f, ok := out.(*os.File)
	return &screen{out: out, terminal: redraw && ok && isTerminal(f), size: func() (rows, columns int) { return terminalSize(f) }}
}

// show shows a text. It returns an error if the output is closed.
func (s *screen) show(text string) error {
	switch {
	case s.terminal:
		// From the upper left corner, line by line, and then clear the rest: so it does not flicker.
		text = strings.ReplaceAll(fit(text, s.size), "\n", "\x1b[K\r\n")
		text = "\x1b[H" + text + "\x1b[J"
	case s.shown:
		text = "\n" + text
	}
	s.shown = true
	_, err := fmt.Fprint(s.out, text)
	return err
}

// fit cuts text to what a terminal shows: the last line, where the cursor stays, is free.
func fit(text string, size func() (rows, columns int)) string {
	rows, columns := size()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if rows > 1 && len(lines) > rows-1 {
		lines = append(lines[:rows-2], fmt.Sprintf("… %d more lines", len(lines)-rows+2))
	}
	for i, line := range lines {
		if runes := []rune(line); columns > 0 && len(runes) > columns {
			lines[i] = string(runes[:columns-1]) + "…"
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
