package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// A counter is a number in a file. Its increments are a read, a pause and a write, so that
// increments at the same time lose updates.
type counter struct{ path string }

func newCounter(t *testing.T) counter {
	t.Helper()
	c := counter{filepath.Join(t.TempDir(), "counter")}
	if err := os.WriteFile(c.path, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c counter) read() (int, error) {
	text, err := os.ReadFile(c.path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

func (c counter) increment() error {
	n, err := c.read()
	if err != nil {
		return err
	}
	time.Sleep(time.Millisecond)
	// A rename is atomic: without a lock an update is lost, but no reader finds half a file.
	next, err := os.CreateTemp(filepath.Dir(c.path), "next")
	if err != nil {
		return err
	}
	_, err = next.WriteString(strconv.Itoa(n + 1))
	if err := errors.Join(err, next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), c.path)
}

// A party increments a counter a number of times under a lock of its own kind.
type party struct {
	name  string
	times int
	run   func(ctx context.Context, c counter, times int) error
}

// patience bounds a test: a party that has not finished by then has failed.
const patience = 2 * time.Minute

// together runs the parties at the same time, and returns what the counter shows and what it
// should show.
func together(t *testing.T, parties ...party) (got, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := newCounter(t)
	var all sync.WaitGroup
	for _, p := range parties {
		want += p.times
		all.Go(func() {
			if err := p.run(ctx, c, p.times); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		})
	}
	all.Wait()
	got, err := c.read()
	if err != nil {
		t.Fatal(err)
	}
	return got, want
}

// ours returns a party that is a Client of its own.
func ours(t *testing.T, masters servers.Fleet, name string, times int) party {
	t.Helper()
	client, err := redlock.Open(masters.Addrs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return party{"redlock", times, func(ctx context.Context, c counter, times int) error {
		for i := range times {
			err := client.Locker(name).Do(ctx, func(context.Context) error { return c.increment() })
			if err != nil {
				return fmt.Errorf("increment %d: %w", i+1, err)
			}
		}
		return nil
	}}
}

// ports returns the masters' ports, separated by commas.
func ports(masters servers.Fleet) string {
	var all []string
	for _, addr := range masters.Addrs() {
		all = append(all, addr[strings.LastIndexByte(addr, ':')+1:])
	}
	return strings.Join(all, ",")
}

// wantNothingLost fails t unless the parties, whose locks have one name, lose no update.
func wantNothingLost(t *testing.T, parties ...party) {
	t.Helper()
	if got, want := together(t, parties...); got != want {
		t.Errorf("the counter is %d, want %d: %d updates were lost", got, want, want-got)
	}
}
