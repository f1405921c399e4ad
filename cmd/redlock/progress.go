package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const (
	barWidth    = 24
	redrawEvery = 50 * time.Millisecond // on a terminal: smooth enough, and no flicker
	plainEvery  = 3 * time.Second       // elsewhere: a log wants a sign of life, not a film
)

// progress tells how far a count has come: on a terminal one line that is rewritten in
// place, elsewhere (a pipe, a CI log) a line at the end and, in a long run, one every few
// seconds. It is not safe for concurrent use.
type progress struct {
	out      io.Writer
	terminal bool             // immutable
	now      func() time.Time // immutable; time.Now but in tests

	label string
	total int
	start time.Time
	last  time.Time // when a line was last drawn or printed
	drawn int       // columns of the unfinished line on the terminal
}

// newProgress returns a progress that writes to out.
func newProgress(out io.Writer) *progress {
	return &progress{out: out, terminal: isTerminal(out), now: time.Now}
}

// isTerminal reports whether out can rewrite a line. A character device that is none, such
// as /dev/null, does no harm.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// begin starts a count from 0 to total.
func (p *progress) begin(label string, total int) {
	p.label, p.total = label, total
	p.start = p.now()
	p.last = p.start
	if p.terminal {
		p.redraw(p.line(0))
	}
}

// update says that the count has come to done. It may be called as often as one likes.
func (p *progress) update(done int) {
	every := plainEvery
	if p.terminal {
		every = redrawEvery
	}
	if p.now().Sub(p.last) < every {
		return
	}
	p.last = p.now()
	if p.terminal {
		p.redraw(p.line(done))
	} else {
		fmt.Fprintln(p.out, p.line(done))
	}
}

// end finishes the count's line.
func (p *progress) end(done int) {
	if p.terminal {
		p.redraw(p.line(done))
	} else {
		fmt.Fprint(p.out, p.line(done))
	}
	p.drawn = 0
	fmt.Fprintln(p.out)
}

// wait shows text on the rewritten line, and nothing elsewhere.
func (p *progress) wait(text string) {
	if p.terminal {
		p.redraw("  " + text)
	}
}

// note prints a line that stays, above the one that is being rewritten.
func (p *progress) note(text string) {
	p.clear()
	fmt.Fprintln(p.out, "  "+text)
}

// clear takes away an unfinished line, so that an error does not begin in its middle.
func (p *progress) clear() {
	if p.drawn > 0 {
		p.redraw("")
		fmt.Fprint(p.out, "\r")
	}
}

// redraw replaces the terminal's last line. Blanks cover what was longer before: unlike an
// escape sequence they work on every console.
func (p *progress) redraw(line string) {
	fmt.Fprintf(p.out, "\r%s%s", line, strings.Repeat(" ", max(0, p.drawn-len(line))))
	p.drawn = len(line)
}

// line renders the count; ASCII alone and under 80 columns, since a line that wraps cannot
// be rewritten.
func (p *progress) line(done int) string {
	seconds := p.now().Sub(p.start).Seconds()
	if !p.terminal {
		return fmt.Sprintf("  %-16s  %*d of %d  %5.1f s", p.label, digits(p.total), done, p.total, seconds)
	}
	full := barWidth
	if p.total > 0 {
		full = min(barWidth, barWidth*done/p.total)
	}
	bar := strings.Repeat("#", full) + strings.Repeat(".", barWidth-full)
	return fmt.Sprintf("  %-16s  [%s]  %*d of %d  %5.1f s", p.label, bar, digits(p.total), done, p.total, seconds)
}

// digits returns how many columns n takes.
func digits(n int) int { return len(fmt.Sprint(n)) }
