package main

import (
	"context"
	"io"
	"log/slog"
	"time"
)

// lossMessage is what the library logs when it loses leases.
const lossMessage = "redlock: leases were lost"

// A withoutLosses is a Handler that leaves out lossMessage: redlock run reports the loss of its lease itself.
type withoutLosses struct{ slog.Handler }

// Handle implements slog.Handler.
func (h withoutLosses) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == lossMessage {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// An asyncWriter writes lines in a goroutine of its own. Standard error may be a pipe that
// nobody reads, for example of a pager that was stopped. A blocked log line must not keep redlock
// from ending its command. Lines that do not fit into the buffer are dropped.
type asyncWriter struct {
	lines chan []byte
	done  chan struct{}
}

func newAsyncWriter(w io.Writer) *asyncWriter {
	p := &asyncWriter{lines: make(chan []byte, 64), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for line := range p.lines {
			w.Write(line)
		}
	}()
	return p
}

func (p *asyncWriter) Write(line []byte) (int, error) {
	select {
	case p.lines <- append([]byte(nil), line...):
	default:
	}
	return len(line), nil
}

// flush waits up to a second until all lines are written. Write must not be called after it.
func (p *asyncWriter) flush() {
	close(p.lines)
	select {
	case <-p.done:
	case <-time.After(time.Second):
	}
}
