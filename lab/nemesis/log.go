package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/redlock-go/redlock/internal/history"
)

// A runLog writes lines with the time since the run began and the time of now.
type runLog struct {
	began int64 // immutable

	mu  sync.Mutex // guards out
	out io.Writer
}

func (l *runLog) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, "%8.3fs %.6f  %s\n", history.Seconds(history.Now()-l.began), history.Seconds(history.Now()), fmt.Sprintf(format, args...))
}
