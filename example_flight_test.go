package redlock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
)

// An OAuth token has expired, and all processes notice. A refresh token can be used once, so one process refreshes, and the others
// have the new token one round trip later.
func ExampleClient_SingleFlight() {
	client, err := redlock.New(embedded(3), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	type token struct {
		Access, Refresh string
		Expires         time.Time
	}
	stored := token{"old", "refresh-1", time.Now().Add(-time.Minute)} // in a table that all processes read
	refresh := func(_ context.Context, t token) (token, error) {      // asks the identity provider
		return token{"new", "refresh-2", time.Now().Add(time.Hour)}, nil
	}

	text, shared, err := client.SingleFlight(context.Background(), "oauth:shop", func(ctx context.Context) ([]byte, error) {
		if time.Until(stored.Expires) < time.Minute { // else another process has refreshed it, and we have missed that
			next, err := refresh(ctx, stored)
			if err != nil {
				return nil, err // the next caller tries
			}
			stored = next
		}
		return json.Marshal(stored)
	})
	if err != nil {
		log.Fatal(err)
	}
	var t token
	if err := json.Unmarshal(text, &t); err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Access, shared)
	// Output: new false
}

// A page has left the cache, and many requests want it. Those that come while it is rendered share the next rendering, since the first one may
// have begun before what they want to see was written.
func ExampleClient_SingleFlight_cache() {
	client, err := redlock.New(embedded(3), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	var rendered atomic.Int32
	render := func(context.Context) ([]byte, error) {
		time.Sleep(100 * time.Millisecond)
		return fmt.Appendf(nil, "page, rendered %d times", rendered.Add(1)), nil
	}
	var requests sync.WaitGroup
	for range 100 {
		requests.Go(func() {
			if _, _, err := client.SingleFlight(context.Background(), "page:/", render); err != nil {
				log.Print(err)
			}
		})
	}
	requests.Wait()
	fmt.Println("100 requests; the page was rendered less than ten times:", rendered.Load() < 10)
	// Output: 100 requests; the page was rendered less than ten times: true
}
