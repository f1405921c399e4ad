package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// When the line of a progress is written.
const (
	progressAfter = 500 * time.Millisecond // what ends earlier shows nothing
	progressEvery = 250 * time.Millisecond // in place: the time is in seconds, and nobody reads faster
	progressPlain = 30 * time.Second       // where nothing can be written over
)

// A progress is one line on a terminal, which says how far a command is, and is written over. What the command writes
// meanwhile must pass through it: see over. It has no colors. It is safe for concurrent use.
type progress struct {
	out  io.Writer                  // immutable; nil: the progress shows nothing
	size func() (rows, columns int) // immutable; of the terminal, at this moment
	dumb bool                       // immutable; the terminal knows no cursor

	mu    sync.Mutex // guards what follows, and out
	line  string     // that is to be seen; "": none is
	shown int        // its columns
}

// newProgress returns a progress on errOut, which shows nothing if errOut is no terminal.
func newProgress(errOut io.Writer) *progress {
	f, ok := errOut.(*os.File)
	if !ok {
		return &progress{}
	}
	if _, columns := terminalSize(f); columns == 0 {
		return &progress{}
	}
	return &progress{out: f, size: func() (rows, columns int) { return terminalSize(f) }, dumb: !isTerminal(f)}
}

// shows reports whether there is a terminal.
func (p *progress) shows() bool { return p.out != nil }

// writeBy has the line written by w, which leads to the terminal, too. It must be called before the progress is used.
func (p *progress) writeBy(w io.Writer) {
	if p.shows() {
		p.out = w
	}
}

// show shows what text returns, again and again, until the function that it returns is called. This removes the line.
// text gets the time since the beginning, and must not use the progress.
func (p *progress) show(text func(passed time.Duration) string) (end func()) {
	if !p.shows() {
		return func() {}
	}
	began := time.Now()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		wait, every := progressAfter, progressEvery
		if p.dumb {
			wait, every = progressPlain, progressPlain
		}
		for {
			select {
			case <-time.After(wait):
				p.draw(text(time.Since(began)))
			case <-over:
				return
			}
			wait = every
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		<-done
		p.mu.Lock()
		defer p.mu.Unlock()
		p.erase()
	})
}

// draw writes the line over the one before.
func (p *progress) draw(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dumb {
		fmt.Fprintln(p.out, text)
		return
	}
	_, columns := p.size()
	line, width := cutTo(text, cmp.Or(columns, screenWidth)-1) // in the last column the cursor might go to the next line
	if line == p.line {
		return
	}
	io.WriteString(p.out, p.away()+line)
	p.line, p.shown = line, width
}

// away returns what removes the line. If the terminal has become narrower, the line has several rows.
func (p *progress) away() string {
	if p.shown == 0 {
		return ""
	}
	_, columns := p.size()
	return strings.Repeat("\r\x1b[K\x1b[A", (p.shown-1)/max(columns, 1)) + "\r\x1b[K"
}

// erase removes the line. p.mu is held.
func (p *progress) erase() {
	if p.shown > 0 {
		io.WriteString(p.out, p.away())
		p.line, p.shown = "", 0
	}
}

// over returns a writer to w, which may be the same terminal. Each write removes the line, and must end with a line feed. The line
// comes back later.
func (p *progress) over(w io.Writer) io.Writer {
	if !p.shows() {
		return w
	}
	return &overProgress{p, w}
}

type overProgress struct {
	of *progress
	w  io.Writer
}

func (o *overProgress) Write(b []byte) (int, error) {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	o.of.erase()
	return o.w.Write(b)
}

// cutTo returns as much of a line as has room in so many columns, and how many it has. Characters beyond the Latin ones
// count as two, as some of them are.
func cutTo(text string, columns int) (line string, width int) {
	for i, r := range text {
		w := 1
		if r > 0x2ff {
			w = 2
		}
		if width+w > columns {
			return text[:i], width
		}
		width += w
	}
	return text, width
}

// passed returns how much time has passed, and is left of a limit; 0: there is none.
func passed(since, limit time.Duration) string {
	since = since.Truncate(time.Second)
	text := minutes(since) + " passed"
	if limit > 0 {
		text += ", " + minutes(max(limit-since, 0)) + " to go"
	}
	return text
}

// minutes returns a time as minutes and seconds.
func minutes(d time.Duration) string {
	s := int(d / time.Second)
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
