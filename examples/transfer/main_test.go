package main

import (
	"errors"
	"io/fs"
	"sync"
	"testing"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestTransfersInAllDirectionsLoseNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.Start(t)
		accounts := Accounts(t.TempDir())
		names := []string{"alice", "bob", "carol"}
		for _, name := range names {
			if err := accounts.Write(name, 100); err != nil {
				t.Fatal(err)
			}
		}
		var all sync.WaitGroup
		for range 2 {
			client := masters.Open(nil)
			for i, from := range names {
				for _, to := range []string{names[(i+1)%3], names[(i+2)%3]} {
					all.Go(func() { transfers(t, client, accounts, from, to) })
				}
			}
		}
		all.Wait()
		sum := 0
		for _, name := range names {
			n, err := accounts.Read(name)
			if err != nil || n < 0 {
				t.Errorf("%s has %d, %v, want 0 or more", name, n, err)
			}
			sum += n
		}
		if sum != 300 {
			t.Errorf("all accounts together have %d, want 300", sum)
		}
	})
}

// transfers makes some transfers.
func transfers(t *testing.T, client *redlock.Client, accounts Accounts, from, to string) {
	for amount := range 5 {
		if err := Transfer(t.Context(), client, accounts, from, to, 10*amount); err != nil && !errors.Is(err, ErrInsufficient) {
			t.Errorf("Transfer of %d from %s to %s = %v", 10*amount, from, to, err)
		}
	}
}

func TestATransferThatFailsChangesNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		client := redlocktest.Start(t).Open(nil)
		accounts := Accounts(t.TempDir())
		if err := accounts.Write("alice", 5); err != nil {
			t.Fatal(err)
		}
		for _, row := range []struct {
			to     string
			amount int
			want   error
		}{
			{"alice", 5, nil},
			{"alice", 6, ErrInsufficient},
			{"alice", -1, ErrInsufficient},
			{"nobody", 5, fs.ErrNotExist},
		} {
			if err := Transfer(t.Context(), client, accounts, "alice", row.to, row.amount); !errors.Is(err, row.want) {
				t.Errorf("Transfer of %d to %s = %v, want %v", row.amount, row.to, err, row.want)
			}
			if n, err := accounts.Read("alice"); n != 5 {
				t.Errorf("after a transfer of %d to %s alice has %d, %v, want 5", row.amount, row.to, n, err)
			}
		}
	})
}
