package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
)

// A fakeTerminal keeps what was written to it.
type fakeTerminal struct {
	columns atomic.Int32

	mu   sync.Mutex // guards seen
	seen string
}

func (f *fakeTerminal) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen += string(b)
	return len(b), nil
}

func (f *fakeTerminal) progress() *progress {
	return &progress{out: f, size: func() (rows, columns int) { return 24, int(f.columns.Load()) }}
}

// next returns what was written since the last call.
func (f *fakeTerminal) next() string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.seen = "" }()
	return f.seen
}

func TestAProgressIsOneLineThatIsWrittenOver(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := new(fakeTerminal)
		f.columns.Store(40)
		p := f.progress()
		var text atomic.Value
		text.Store("first")
		var out bytes.Buffer
		over := p.over(&out)
		end := p.show(func(time.Duration) string { return text.Load().(string) })
		for _, tt := range []struct {
			name string
			do   func()
			want string
		}{
			{"at the beginning", func() {}, ""},
			{"after a while", func() { time.Sleep(progressAfter) }, "first"},
			{"without a change", func() { time.Sleep(progressEvery) }, ""},
			{"with another text", func() { text.Store("second"); time.Sleep(progressEvery) }, "\r\x1b[Ksecond"},
			{"with something written meanwhile", func() { fmt.Fprintln(over, "a log line") }, "\r\x1b[K"},
			{"after that", func() { time.Sleep(progressEvery) }, "second"},
			{"with a text that is too long", func() { text.Store(strings.Repeat("x", 50)); time.Sleep(progressEvery) }, "\r\x1b[K" + strings.Repeat("x", 39)},
			{"with a narrower terminal", func() { f.columns.Store(20); time.Sleep(progressEvery) }, "\r\x1b[K\x1b[A\r\x1b[K" + strings.Repeat("x", 19)},
			{"with wide characters", func() { text.Store(strings.Repeat("鍵", 20)); time.Sleep(progressEvery) }, "\r\x1b[K" + strings.Repeat("鍵", 9)},
			{"at the end", end, "\r\x1b[K"},
			{"at the end again", end, ""},
			{"long after that", func() { time.Sleep(time.Minute) }, ""},
		} {
			tt.do()
			if got := f.next(); got != tt.want {
				t.Errorf("%s, %q is written, want %q", tt.name, got, tt.want)
			}
		}
		if out.String() != "a log line\n" {
			t.Errorf("what was written meanwhile is %q", &out)
		}
	})
}

func TestADumbTerminalGetsLinesNowAndThen(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := new(fakeTerminal)
		p := f.progress()
		p.dumb = true
		end := p.show(func(since time.Duration) string { return passed(since, time.Minute) })
		time.Sleep(progressPlain + progressPlain/2)
		end()
		if got := f.next(); got != "0:30 passed, 0:30 to go\n" {
			t.Errorf("%q is written", got)
		}
	})
}

func TestAProgressShowsNothingWhereThereIsNoTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, p := range []*progress{newProgress(null), newProgress(w), newProgress(new(bytes.Buffer))} {
		var out bytes.Buffer
		if p.shows() || p.over(&out) != &out {
			t.Error("it shows something")
		}
		p.show(func(time.Duration) string { t.Error("it asks for a text"); return "" })()
	}
}
