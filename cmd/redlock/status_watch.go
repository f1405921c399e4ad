package main

import (
	"fmt"
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
			one := lockOfNames{name: lock.name, slots: []int{slot.Number}, Holding: slot.Holding}
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
