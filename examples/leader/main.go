// Command leader runs on every replica of a service and works on one of them: the one that is elected. When that replica ends,
// crashes or loses the lock, another takes over.
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

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/election"
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
	err = lead(ctx, client, *name)
	if err := client.Close(); err != nil {
		log.Print(err)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// lead works whenever this process is elected, until ctx ends.
func lead(ctx context.Context, client *redlock.Client, name string) error {
	e, err := election.New(client, name, nil)
	if err != nil {
		return err
	}
	return e.Run(ctx, func(ctx context.Context, term uint64) error {
		fmt.Printf("leading in term %d\n", term) // send the term with each write, to a store that refuses lower ones
		<-ctx.Done()
		fmt.Printf("term %d is over\n", term)
		return context.Cause(ctx)
	})
}
