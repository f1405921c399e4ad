package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestOneProcessLoadsWhatAllRead(t *testing.T) {
	ms := redlocktest.Start(t)
	var loads atomic.Int64
	load := func(context.Context) (string, error) { return fmt.Sprint("load ", loads.Add(1)), nil }
	file := filepath.Join(t.TempDir(), "prices.txt")
	var all sync.WaitGroup
	for range 4 {
		c := cache{lock: ms.Open(nil).RWLocker("cache"), file: file, fresh: time.Hour, load: load}
		all.Go(func() {
			for range 10 {
				text, err := c.get(t.Context())
				for errors.Is(err, redlock.ErrLost) { // before its first renewal, on a busy machine
					text, err = c.get(t.Context())
				}
				if err != nil || text != "load 1" {
					t.Errorf("get = %q, %v, want what was loaded first", text, err)
				}
			}
		})
	}
	all.Wait()
	if n := loads.Load(); n != 1 {
		t.Errorf("loaded %d times, want once", n)
	}
}
