package redlock_test

import (
	"context"
	"errors"
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

	err = client.Locker("stock").Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("nobody else, on any machine, is in here")
		return ctx.Err() // ctx ends if the lock is lost
	})
	if err != nil {
		log.Fatal(err) // if it was lost, errors.Is(err, redlock.ErrLost)
	}
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

// A wait that ends: the error tells a lock that is held from masters that are
// down.
func ExampleLocker_LockContext() {
	client, err := redlock.New(embedded(3), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	client.Locker("stock").Lock() // somebody else

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err = client.Locker("stock").LockContext(ctx)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, redlock.ErrHeld))
	// Output: true true
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
