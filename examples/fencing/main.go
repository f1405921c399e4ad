// Command fencing shows why a lock alone cannot protect a resource, and how a fence does: a
// holder is stopped for longer than its lease, and writes when it continues.
//
//	fencing store   serve values that only the latest holder of a lock may write
//	fencing work    lock "account", read its value, add to it, and write it
//
// README.md in this directory shows how to run it.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
)

func main() {
	err := errors.New("usage: fencing store|work [flags]; -help lists them")
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "store":
			err = serve(os.Args[2:])
		case "work":
			err = work(os.Args[2:])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fencing: error:", err)
		os.Exit(1)
	}
}

// serve runs the store.
func serve(args []string) error {
	flags := flag.NewFlagSet("fencing store", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:0", "`address` to serve on")
	file := flags.String("file", "store.json", "`path` of the file that holds the values and their fences")
	compares := flags.Bool("compare", true, "refuse low fences; false shows what happens without fences")
	flags.Parse(args) // exits on an error
	s, err := openStore(*file)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	server := &http.Server{Handler: s, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	if !*compares {
		server.Handler = careless(s)
	}
	return server.Serve(l)
}

// careless returns a store that ignores fences, as most stores do: it gives each request the same
// fence.
func careless(s http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Fence", "1")
		s.ServeHTTP(w, r)
	})
}

// work adds to the account once.
func work(args []string) error {
	flags := flag.NewFlagSet("fencing work", flag.ExitOnError)
	store := flags.String("store", "", "the store's `URL`")
	masters := flags.String("masters", os.Getenv("REDLOCK_MASTERS"), "the Redis masters, comma separated; default $REDLOCK_MASTERS")
	ttl := flags.Duration("ttl", 10*time.Second, "how long a stopped worker keeps the lock")
	add := flags.Int("add", 1, "what to add to the account")
	pause := flags.Bool("pause", false, "wait for Enter between the last check of the lease and the write")
	flags.Parse(args)
	client, err := redlock.Open(strings.Split(*masters, ","), &redlock.Options{
		LockOptions: redlock.LockOptions{TTL: *ttl, Fencing: true},
	})
	if err != nil {
		return err
	}
	defer client.Close()

	mu := client.Locker("account")
	return mu.Do(context.Background(), func(ctx context.Context) error {
		lease := mu.Lease()
		account := resource{url: *store + "/account", fence: lease.Fence()}
		n, err := account.read(ctx)
		if err != nil {
			return err
		}
		if !lease.Valid() {
			return lease.Err()
		}
		// However often a holder checks its lease, the process can be stopped after the last
		// check, or the write can be delayed on its way to the store. --pause makes this moment
		// long.
		if *pause {
			fmt.Printf("read %d with fence %d, and the lease is valid: Enter writes\n", n, lease.Fence())
			if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
				return err
			}
		}
		// WithoutCancel: ctx would check the lease again. A write that is already on its way
		// checks nothing.
		if err := account.write(context.WithoutCancel(ctx), n+*add); err != nil {
			return err
		}
		fmt.Printf("wrote %d with fence %d\n", n+*add, lease.Fence())
		return nil
	})
}

// A resource is a number in the store, for one holder of its lock.
type resource struct {
	url   string
	fence uint64 // the holder's
}

// read returns the number. After it no earlier holder can write the number.
func (r resource) read(ctx context.Context) (int, error) {
	text, err := r.ask(ctx, http.MethodGet, "")
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.Atoi(text)
}

// write replaces the number, unless a later holder has used it before.
func (r resource) write(ctx context.Context, n int) error {
	_, err := r.ask(ctx, http.MethodPut, strconv.Itoa(n))
	return err
}

func (r resource) ask(ctx context.Context, method, body string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Fence", strconv.FormatUint(r.fence, 10))
	req.Close = true // a connection that is kept for the write might break during the pause
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the store says: %s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	return string(text), err
}
