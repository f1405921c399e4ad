package redlock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// This is the program on the README's first screen; a test compares them.
func Example() {
	masters := strings.Split(os.Getenv("REDLOCK_MASTERS"), ",") // host:port,host:port,…
	client, err := redlock.Open(masters, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stock := client.Locker("stock")
	if err := stock.LockContext(ctx); err != nil {
		log.Fatal(err) // somebody held it all the time, or no majority answered: it says which
	}
	defer stock.Unlock()
	fmt.Println("nobody else is in here until", stock.Lease().Until().Format(time.TimeOnly))
}

// A pool of one's own for each master, here to embedded ones.
func ExampleNew() {
	var pools []*redis.Pool = embedded(3)
	client, err := redlock.New(pools, &redlock.Options{Names: []string{"blue", "green", "red"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	mu := client.Locker("stock")
	mu.Lock()
	fmt.Println("locked")
	mu.Unlock()
	// Output: locked
}

func ExampleLocker_TryLock() {
	client, err := redlock.New(embedded(3), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	nightly := client.Locker("nightly report")
	if !nightly.TryLock() {
		return // another machine is at it
	}
	defer nightly.Unlock()
	fmt.Println("writing the report")
	// Output: writing the report
}

// embedded returns pools of n embedded masters, for examples, which have no
// testing.T: theirs live until the process ends.
func embedded(n int) []*redis.Pool { return redlocktest.StartN(exampleTB{}, n).Pools() }

// exampleTB is what there is of a test in an example.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper()                      {}
func (exampleTB) Cleanup(func())               {}
func (exampleTB) Fatalf(f string, args ...any) { log.Fatalf(f, args...) }
