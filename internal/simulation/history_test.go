package simulation

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// A history is what happened in a run, in the order of its events.
type history struct {
	begun time.Time // immutable

	mu    sync.Mutex // guards what follows
	lines []line
}

type line struct {
	at   time.Duration
	text string
}

// note adds an event.
func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line{time.Since(h.begun), fmt.Sprintf(format, args...)})
}

// linesShown is how much of a history a report shows. The rest is seldom needed.
const linesShown = 40

// before returns the last lines up to a moment.
func (h *history) before(at time.Duration) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	for len(lines) > 0 && lines[len(lines)-1].at > at {
		lines = lines[:len(lines)-1]
	}
	skipped := max(len(lines)-linesShown, 0)
	text := format(lines[skipped:])
	if skipped > 0 {
		text = fmt.Sprintf("(the command shows the %d lines before)\n", skipped) + text
	}
	return text
}

func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return format(h.lines)
}

func format(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%12v %s\n", ms(l.at), l.text)
	}
	return b.String()
}

// digest returns a number that differs between different histories.
func (h *history) digest() uint64 {
	sum := fnv.New64a()
	sum.Write([]byte(h.String()))
	return sum.Sum64()
}

// logger returns a handler that adds what a process logs.
func (h *history) logger(p *process) slog.Handler { return &handler{h, p} }

type handler struct {
	history *history
	process *process
}

func (*handler) Enabled(context.Context, slog.Level) bool { return true }
func (h *handler) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h *handler) WithGroup(string) slog.Handler          { return h }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	h.history.note("%v logs: %s%s", h.process, r.Message, b.String())
	return nil
}
