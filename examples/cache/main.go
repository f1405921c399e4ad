// Command cache shows a file that many processes read and one of them refreshes. A reader sees the file as one
// writer has left it, never half of it. While nobody writes, reading needs no network.
//
//	REDLOCK_MASTERS=127.0.0.1:6379 go run ./examples/cache prices.txt
//
// Start it several times, on one machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: cache FILE")
	}
	client, err := redlock.Open(strings.Split(os.Getenv("REDLOCK_MASTERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c := cache{lock: client.RWLocker("cache:" + os.Args[1]), file: os.Args[1], fresh: 5 * time.Second, load: prices}
	for ctx.Err() == nil {
		text, err := c.get(ctx)
		if err != nil {
			log.Print(err)
		}
		fmt.Print(text)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// A cache is a file that is loaded again when it is no longer fresh.
type cache struct {
	lock  *redlock.RWLocker
	file  string
	fresh time.Duration
	load  func(ctx context.Context) (string, error) // expensive
}

// get returns the text of the file, and refreshes the file first if it is old.
func (c *cache) get(ctx context.Context) (text string, err error) {
	var fresh bool
	err = c.lock.RDo(ctx, func(context.Context) error {
		text, fresh, err = c.read()
		return err
	})
	if err != nil || fresh {
		return text, err
	}
	err = c.lock.Do(ctx, func(ctx context.Context) error {
		if text, fresh, err = c.read(); err != nil || fresh { // another process was first
			return err
		}
		if text, err = c.load(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil { // the lock is lost
			return err
		}
		return os.WriteFile(c.file, []byte(text), 0o644)
	})
	return text, err
}

// read returns the text of the file, and reports whether it is fresh.
func (c *cache) read() (text string, fresh bool, err error) {
	info, err := os.Stat(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	} else if err != nil {
		return "", false, err
	}
	data, err := os.ReadFile(c.file)
	return string(data), time.Since(info.ModTime()) < c.fresh, err
}

// prices stands for a slow query.
func prices(ctx context.Context) (string, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return fmt.Sprintf("loaded by %d at %s\n", os.Getpid(), time.Now().Format(time.TimeOnly)), nil
}
