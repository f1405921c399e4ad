package main

import (
	"io"
	"time"
)

// A patientWriter writes lines on a goroutine of its own. Standard error may be a
// pipe that nobody reads, a paused pager for example; saying why the command is
// ended must not keep it from being ended. What does not fit is dropped.
type patientWriter struct {
	lines chan []byte
	done  chan struct{}
}

func newPatientWriter(w io.Writer) *patientWriter {
	p := &patientWriter{lines: make(chan []byte, 64), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for line := range p.lines {
			w.Write(line)
		}
	}()
	return p
}

func (p *patientWriter) Write(line []byte) (int, error) {
	select {
	case p.lines <- append([]byte(nil), line...):
	default:
	}
	return len(line), nil
}

// flush waits a moment for what was written. Nothing may be written after it.
func (p *patientWriter) flush() {
	close(p.lines)
	select {
	case <-p.done:
	case <-time.After(time.Second):
	}
}
