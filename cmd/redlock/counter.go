package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A counter is a number in a plain file, which several processes increment.
//
// Each write replaces the whole file by a rename. So a reader sees the old number or the
// new one and never half of one, and what the demo loses without the lock is lost between
// a read and a write, which is its subject, not in a torn write, which would not be.
type counter struct{ path string }

// newCounter creates a counter in dir that stands at 0.
func newCounter(dir, name string) (counter, error) {
	c := counter{filepath.Join(dir, name)}
	return c, c.write(0)
}

// increment adds one as every program does that knows no better: it reads, works for the
// time of hold, and writes. Whoever else writes meanwhile is overwritten.
func (c counter) increment(hold time.Duration) error {
	n, err := c.read()
	if err != nil {
		return err
	}
	time.Sleep(hold)
	return c.write(n + 1)
}

// read returns the number.
func (c counter) read() (int, error) {
	var text []byte
	err := insist(func() (err error) {
		text, err = os.ReadFile(c.path)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("reading the counter: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("reading the counter: %w", err)
	}
	return n, nil
}

// write replaces the number by n.
func (c counter) write(n int) error {
	// The process id keeps two writers' unfinished files apart; within a process there is one.
	unfinished := c.path + "." + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(unfinished, fmt.Appendln(nil, n), 0o600); err != nil {
		return fmt.Errorf("writing the counter: %w", err)
	}
	if err := insist(func() error { return os.Rename(unfinished, c.path) }); err != nil {
		return fmt.Errorf("writing the counter: %w", err)
	}
	return nil
}

// insist tries f for up to a second. Windows refuses to open or replace a file at the
// moment in which another process has it open; elsewhere the first try settles it.
func insist(f func() error) error {
	err := f()
	for try := 0; err != nil && try < 500; try++ {
		time.Sleep(2 * time.Millisecond)
		err = f()
	}
	return err
}
