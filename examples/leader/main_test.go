package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestOneLeadsAndAnotherTakesOver(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.Start(t)
		first := masters.Open(&redlock.Options{Owner: "first"})
		second := masters.Open(&redlock.Options{Owner: "second"})
		ctx, end := context.WithCancel(t.Context())
		defer end()
		done := make(chan error, 1)
		go func() { done <- lead(ctx, first, "a") }()
		time.Sleep(time.Second)
		go lead(t.Context(), second, "a")
		for _, want := range []string{"first", "second"} {
			time.Sleep(15 * time.Second)
			synctest.Wait()
			if h, err := second.Inspect(t.Context(), "a"); err != nil || h.Owner != want {
				t.Errorf("%q leads, %v, want %q", h.Owner, err, want)
			}
			if want == "first" {
				end()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("lead = %v, want the cause of its context", err)
				}
			}
		}
	})
}
