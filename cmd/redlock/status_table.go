package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/wire"
)

// namedWaiters is how many of the clients that wait for a lock the table names.
const namedWaiters = 3

// text renders what was seen as a table.
func (s *status) text(seen observation) string {
	var b strings.Builder
	if len(seen.locks) > 0 {
		b.WriteString(locksTable(seen, s.watch).String())
	} else if seen.answered >= seen.need {
		b.WriteString("No locks.\n")
	}
	if seen.more > 0 {
		fmt.Fprintf(&b, "%d more locks are not shown: use --prefix.\n", seen.more)
	}
	if lines := seen.troubles(s.masters); len(lines) > 0 {
		b.WriteString("\n" + fold(strings.Join(lines, "\n"), "", "  "))
	}
	return b.String()
}

// locksTable returns the table of locks. If it is wider than a screen with the clients that wait, these stand
// below their lock. Locks with another holder than watch knew are marked, unless watch is nil.
func locksTable(seen observation, watch *watching) sheet {
	s := sheet{head: []string{"NAME", "OWNER", "LEFT", "MASTERS", "FENCE", "WAITING"}}
	var queues []holding.Queue // by row
	for _, lock := range seen.locks {
		if lock.isLock() || !lock.isSemaphore() {
			row := sheetRow{cells: lock.cells(seen.masters)}
			if lock.problem != nil {
				row.remarks = []string{lock.problem.Error()}
			}
			s.rows, queues = append(s.rows, row), append(queues, lock.Queue)
		}
		if lock.isSemaphore() {
			s.rows = append(s.rows, lock.permitRows(seen.masters)...)
			queues = append(queues, lock.permits.Queue)
			queues = append(queues, make([]holding.Queue, len(lock.permits.Slots))...)
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
			s.rows[i].remarks = append(s.rows[i].remarks, "waiting: "+waiters(queue))
		}
	}
	return s
}

// cells returns a lock's line of the table.
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

// owner returns who has the token, or how many clients read, and some of them.
func (l lockOfNames) owner() string {
	if l.Token != wire.ReadersMarker {
		return ownerOr(l.Owner())
	}
	text := fmt.Sprintf("%d reading", len(l.Readers))
	for i, owner := range l.Readers {
		if i == namedWaiters {
			return text + ", …"
		}
		text += map[bool]string{true: ": ", false: ", "}[i == 0] + ownerOr(owner)
	}
	return text
}

// ownerOr returns an owner, or that it is unknown.
func ownerOr(owner string) string { return cmp.Or(owner, "unknown") }

// waiting renders how many wait, and names some.
func waiting(q holding.Queue) string {
	if q.Waiting == 0 {
		return "-"
	}
	return fmt.Sprintf("%d: %s", q.Waiting, waiters(q))
}

// waiters names some of those who wait.
func waiters(q holding.Queue) string {
	var some []string
	for _, w := range q.Waiters[:min(len(q.Waiters), namedWaiters)] {
		text := ownerOr(w.Owner()) + " " + short(w.For)
		if w.Reads {
			text += " to read"
		}
		if w.Permits > 1 {
			text += fmt.Sprintf(" for %d", w.Permits)
		}
		some = append(some, text)
	}
	text := strings.Join(some, ", ")
	if q.Waiting > len(some) {
		text += ", …"
	}
	return text
}

// shown returns a name for a table: quoted if it is not plain, and cut if it is long.
func shown(name string) string {
	const most = 60
	cut := ""
	if len(name) > most {
		name, cut = strings.ToValidUTF8(name[:most], ""), "…"
	}
	if strings.ContainsAny(name, " \t\"") || redisconn.Printable(name) != name {
		return fmt.Sprintf("%q", name) + cut
	}
	return name + cut
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

// isTerminal reports whether f is a terminal that understands escape sequences.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
