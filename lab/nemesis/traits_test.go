package main

import (
	"strings"
	"testing"
	"time"
)

// TestEachTraitIsDrawn checks that clients of a few seeds have each of the traits, and that the first has the defaults.
func TestEachTraitIsDrawn(t *testing.T) {
	drawing = true
	defer func() { drawing = false }()
	seen := make(map[string]bool)
	for seed := range uint64(30) {
		for client := range 5 {
			text := drawTraits(seed, client, time.Second).String()
			for _, trait := range strings.Split(text, ", ") {
				seen[trait] = true
			}
			if client == 0 && text != "1 open, TTL 1s" {
				t.Errorf("client 0 of seed %d has %s, want the defaults", seed, text)
			}
		}
	}
	for _, trait := range []string{"1 open", "2 open", "TTL 1s", "TTL 750ms", "without renewal", "drift 0.2", "without wake-ups",
		"without the right to SUBSCRIBE", "without the right to PUBSUB", "its clock is set"} {
		if !seen[trait] {
			t.Errorf("no client is drawn %s", trait)
		}
	}
	want := "client-3 on nopass ~* &* +@all -" + drawTraits(3, 3, time.Second).Denied
	if args := strings.Join(users(3, 5, time.Second), " "); !strings.Contains(args, want) {
		t.Errorf("the servers are started with %s, want %s", args, want)
	}
}
