package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// This program is also on the first screen of the README. A test compares the two.
func Example() {
	masters := strings.Split(os.Getenv("REDLOCK_MASTERS"), ",") // host:port,host:port,…
	client, err := redlock.Open(masters, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Locker("stock").Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("nobody else, on any machine, is in here")
		return context.Cause(ctx) // ctx ends if the lock is lost, and the cause says why
	})
	if err != nil {
		log.Fatal(err) // if it was lost, errors.Is(err, redlock.ErrLost)
	}
}

// Use New to give each master a pool of your own. Here the masters are embedded ones.
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

// The owner of a shard locks it for each request. With Keep the lock stays with the Client until another one wants it.
func ExampleLockOptions_keep() {
	acquired := 0
	client, err := redlock.New(embedded(3), &redlock.Options{
		LockOptions: redlock.LockOptions{TTL: 2 * time.Second, Keep: 20 * time.Second},
		Trace:       &redlock.Trace{Acquired: func(context.Context, redlock.AcquiredInfo) { acquired++ }},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() // releases the locks that are kept

	shard := client.Locker("shard-7")
	requests := 0
	for range 1000 {
		shard.Lock()
		requests++
		shard.Unlock()
	}
	fmt.Println(requests, "requests; the masters were asked for the lock less often:", acquired < requests)
	// Output: 1000 requests; the masters were asked for the lock less often: true
}

// A wait with a time limit. The error shows whether the lock is held or masters are down.
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

// The context of Do bounds the wait and the function. Here only the wait has a time limit.
func ExampleLocker_LockContext_limitOnlyTheWait() {
	client, err := redlock.New(embedded(3), &redlock.Options{NodeTimeout: 4 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	work := func(ctx context.Context) error {
		_, limited := ctx.Deadline()
		fmt.Println("a limit for the work:", limited)
		return context.Cause(ctx) // ctx ends if the lock is lost
	}
	lockAndWork := func(ctx context.Context, l *redlock.Locker) (err error) {
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := l.LockContext(short); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.UnlockContext(ctx)) }()
		return work(l.Lease().Context(ctx))
	}
	fmt.Println(lockAndWork(context.Background(), client.Locker("stock")))
	// Output:
	// a limit for the work: false
	// <nil>
}

func ExampleLocker_TryLock() {
	client, err := redlock.New(embedded(3), &redlock.Options{NodeTimeout: 4 * time.Second})
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

// A job that starts on several machines at the same time is to run on one of them. The lock is kept for a while after the job has begun,
// even if the job is quicker: otherwise a machine whose clock is late would run it once more. That while is longer than the clocks differ,
// and shorter than the time between two runs. The process must live as long: Close releases the lock.
func ExampleLocker_TryLockContext_atLeast() {
	const atLeast = 30 * time.Second
	masters := embedded(3)
	for _, machine := range []string{"a", "b"} {
		client, err := redlock.New(masters, &redlock.Options{NodeTimeout: 4 * time.Second})
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()

		lock := client.Locker("every minute")
		began := time.Now()
		if err := lock.TryLockContext(context.Background()); err != nil {
			fmt.Println(machine, "does nothing, since another machine does:", errors.Is(err, redlock.ErrHeld))
			continue
		}
		fmt.Println(machine, "runs the job")
		time.AfterFunc(time.Until(began.Add(atLeast)), lock.Unlock) // any goroutine may release a lock
	}
	// Output:
	// a runs the job
	// b does nothing, since another machine does: true
}

// A batch that takes hours yields between two parts when somebody waits.
func ExampleLease_Wanted() {
	client, err := redlock.New(embedded(3), &redlock.Options{NodeTimeout: 4 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	batch, urgent := client.Locker("report"), client.Locker("report")
	done := make(chan struct{})

	batch.Lock()
	for part := range 3 {
		fmt.Println("part", part)
		if part == 0 {
			go func() {
				defer close(done)
				urgent.Lock()
				fmt.Println("urgent")
				urgent.Unlock()
			}()
			<-batch.Lease().Wanted() // so that the output of the example is always the same
		}
		select {
		case <-batch.Lease().Wanted():
			batch.Unlock()
			batch.Lock() // behind those that wait
		default:
		}
	}
	batch.Unlock()
	<-done
	// Output:
	// part 0
	// urgent
	// part 1
	// part 2
}

// Any number of replicas call an API that bears two calls at a time. The numbers of the permits choose a connection, a port or a GPU.
func ExampleSemaphore() {
	client, err := redlock.New(embedded(3), &redlock.Options{NodeTimeout: 4 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	calls := client.Semaphore("api", 2)
	err = calls.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("at most two are in here, on all machines")
		return context.Cause(ctx) // ctx ends if the permit is lost
	})
	if err != nil {
		log.Fatal(err)
	}

	both, err := calls.AcquireN(context.Background(), 2)
	if err != nil {
		log.Fatal(err)
	}
	_, err = calls.TryAcquire(context.Background())
	fmt.Println(both.Slots(), errors.Is(err, redlock.ErrHeld))
	both.Release()
	// Output:
	// at most two are in here, on all machines
	// [0 1] true
}

// Ten replicas of a service share a cap on the calls of an API: at most three are under way at a time.
func ExampleSemaphore_replicas() {
	masters := redlocktest.StartN(exampleTB{}, 3)
	var mu sync.Mutex // guards calls and most
	calls, most := 0, 0
	var all sync.WaitGroup
	for range 10 { // each with a Client of its own, as in a process of its own
		client, err := redlock.New(masters.Pools(), nil)
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		api := client.Semaphore("api", 3)
		all.Go(func() {
			for done := 0; done < 3; {
				err := api.Do(context.Background(), func(ctx context.Context) error { // ctx ends if the permit is lost
					mu.Lock()
					calls++
					most = max(most, calls)
					mu.Unlock()
					time.Sleep(time.Millisecond) // the call, with ctx
					mu.Lock()
					calls--
					mu.Unlock()
					return context.Cause(ctx)
				})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, redlock.ErrLost): // else this process had no processor for too long, and calls again
					log.Fatal(err)
				}
			}
		})
	}
	all.Wait()
	fmt.Println("more than three:", most > 3)
	// Output: more than three: false
}

// The slot of a permit chooses one of the GPUs, which no other holder has. A job for two GPUs gets both or waits.
func ExamplePermit_Slots() {
	client, err := redlock.New(embedded(3), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	devices := []string{"cuda:0", "cuda:1"}
	gpus := client.Semaphore("gpus", len(devices))
	train := func(ctx context.Context, n int) error {
		permit, err := gpus.AcquireN(ctx, n)
		if err != nil {
			return err
		}
		defer permit.Release()
		for _, slot := range permit.Slots() {
			fmt.Println("train on", devices[slot])
		}
		return context.Cause(permit.Context(ctx)) // what a job is given: it ends if the permit is lost
	}
	if err := train(context.Background(), 2); err != nil {
		log.Fatal(err)
	}
	// Output:
	// train on cuda:0
	// train on cuda:1
}

// Inspect reports who holds a lock. It is meant for people and their tools, since the answer may be out of
// date already.
func ExampleClient_Inspect() {
	masters := embedded(3)
	holder, err := redlock.New(masters, &redlock.Options{Owner: "web-1/4711"})
	if err != nil {
		log.Fatal(err)
	}
	defer holder.Close()
	viewer, err := redlock.New(masters, &redlock.Options{NodeTimeout: 4 * time.Second, DialTimeout: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer viewer.Close()
	stock := holder.Locker("stock")
	stock.Lock()

	h, err := viewer.Inspect(context.Background(), "stock")
	fmt.Println(h.Owner, h.Held, h.Left > 0, h.Waiting, err)
	stock.Unlock()
	// Output: web-1/4711 true true 0 <nil>
}

// A service has metrics in Options.Trace, and functions of its own beside them. Package contrib/promredlock has such
// metrics; here LogTrace stands for them.
func ExampleJoinTraces() {
	metrics := redlock.LogTrace(nil)
	own := &redlock.Trace{LockDone: func(_ context.Context, i redlock.LockDoneInfo) {
		fmt.Println(i.Name, i.Outcome())
	}}
	client, err := redlock.New(embedded(3), &redlock.Options{Trace: redlock.JoinTraces(metrics, own)})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	client.Locker("stock").Lock()
	// Output: stock acquired
}

// embedded returns pools of n embedded masters. It is for examples, which have no testing.T, so the masters
// live until the process ends.
func embedded(n int) []*redis.Pool { return redlocktest.StartN(exampleTB{}, n).Pools() }

// exampleTB is a testing.TB for examples. It has only the methods that they need.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper()                      {}
func (exampleTB) Cleanup(func())               {}
func (exampleTB) Fatalf(f string, args ...any) { log.Fatalf(f, args...) }
