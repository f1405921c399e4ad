// Command leader runs on every replica of a service and works on one of them: the one that holds a
// lock. When that replica ends, crashes or loses the lock, another takes over.
//
//	REDLOCK_MASTERS=a:6379,b:6379,c:6379 leader -name reports
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redlock-go/redlock"
)

func main() {
	masters := flag.String("masters", os.Getenv("REDLOCK_MASTERS"), "the Redis masters, comma separated; default $REDLOCK_MASTERS")
	name := flag.String("name", "leader", "the `name` of the lock")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := redlock.Open(strings.Split(*masters, ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	err = Lead(ctx, client, *name, func(ctx context.Context, term uint64) error {
		fmt.Printf("leading in term %d\n", term)
		<-ctx.Done()
		fmt.Printf("term %d is over\n", term)
		return nil
	})
	if err := client.Close(); err != nil { // the next leader need not wait for the end of the lease
		log.Print(err)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// Lead calls work whenever this process is the leader, until ctx ends; it returns the reason why ctx has
// ended, or an error of the configuration. The context of work ends with the leadership: work must then
// return. A term is greater than every earlier term, of whatever process: send it with each write, to a
// store that refuses lower ones. If work returns while it leads, the leadership passes on.
func Lead(ctx context.Context, client *redlock.Client, name string, work func(ctx context.Context, term uint64) error) error {
	lock, err := client.NewLocker(name, &redlock.LockOptions{Fencing: true, MaxHold: -1})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := lock.Do(ctx, func(ctx context.Context) error {
			return work(ctx, lock.Lease().Fence())
		})
		if err != nil && ctx.Err() == nil {
			log.Printf("leadership of %s ended: %v", name, err)
			pause(ctx, time.Second)
		}
	}
	return context.Cause(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
