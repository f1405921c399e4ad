package main

import (
	"context"
	"io"
	"log/slog"
	"time"
)

// lossMessage is what the library logs when it loses leases.
const lossMessage = "redlock: leases were lost"

// waitMessage is what the library logs about long waits, with level Info if somebody else holds the lock.
const waitMessage = "redlock: still waiting for locks"

// A runHandler is a Handler that leaves out lossMessage, since redlock run reports the loss of its lease itself. If quiet, it also leaves
// out waits for a lock that somebody else holds.
type runHandler struct {
	slog.Handler
	quiet bool
}

// Handle implements slog.Handler.
func (h runHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == lossMessage || h.quiet && r.Message == waitMessage && r.Level == slog.LevelInfo {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// An asyncWriter writes lines in a goroutine of its own. Standard error may be a pipe that
// nobody reads, for example of a pager that was stopped. A blocked log line must not keep redlock
// from ending its command. Lines that do not fit into the buffer are dropped.
type asyncWriter struct {
	lines chan asyncLine // never closed: a Client whose Shutdown was cut short may still log
}

// An asyncLine is a line, or a question whether all before it are written.
type asyncLine struct {
	text    []byte
	written chan struct{} // nil: nobody asks
}

func newAsyncWriter(w io.Writer) *asyncWriter {
	p := &asyncWriter{lines: make(chan asyncLine, 64)}
	go func() {
		for line := range p.lines {
			if line.written != nil {
				close(line.written)
				continue
			}
			w.Write(line.text)
		}
	}()
	return p
}

func (p *asyncWriter) Write(line []byte) (int, error) {
	select {
	case p.lines <- asyncLine{text: append([]byte(nil), line...)}:
	default:
	}
	return len(line), nil
}

// drain waits until what Write was given is written, for limit at most.
func (p *asyncWriter) drain(limit time.Duration) {
	line := asyncLine{written: make(chan struct{})}
	late := time.After(limit)
	select {
	case p.lines <- line:
	case <-late:
		return
	}
	select {
	case <-line.written:
	case <-late:
	}
}
