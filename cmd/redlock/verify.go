package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock/internal/history"
	"github.com/redlock-go/redlock/internal/supervise"
)

const (
	verifyFor   = 5 * time.Minute // the default of --for
	verifyLeast = time.Second
	verifyMost  = 24 * time.Hour

	// verifyTTL is the TTL of the locks, unless the masters' MaxTTL is shorter. It is short, so that the locks of
	// processes that are killed are soon free.
	verifyTTL = 3 * time.Second
)

const verifyDescription = `Runs clients of its own on your masters, makes faults between them, records
what each client holds, and checks the record: no two clients may hold a lock
at a time, fences must rise, and the holder of a lease that is lost must be
told. The record is a file that you can check with a program of your own, or
look at in a browser: see --report.

It is made for masters in use. It stops no server and changes no setting. It
uses keys with a random prefix and deletes them at the end, also if it is
killed. What remains are keys redlock:waiter:* of processes that were killed,
for seconds, and the record of a master that was new. It takes at most 150
locks a second. It does not raise the masters' MaxTTL, so all of them must
answer when it begins.

Six processes lock: two that queue, two whose leases are not renewed, or
are of two names, and two that poll, without a subscription. Each has two goroutines and
two names. The faults need no rights: processes are stopped for up to two
TTLs and killed, and their connections are cut, held back or slowed down.

It does not show what the masters do when they restart, fail over, lose data,
fill up, or have a wrong clock; clients on other machines; nor that a resource
is safe from a holder that writes late.

The record has a JSON object on each line:
   k      what happened
            asked     before a call of LockContext
            entered   after it, with the lock; refused: without the lock
            held      before a call of Lease.Valid that returned true
            lost      after a call of Lease.Valid that returned false
            leaving   before the unlock; left: after it
            ready     a process has opened its client; done: has closed it
            stopped   before a process is stopped; continued: after it goes on
            fault     a fault begins; mended: it is over
   op     the operation: client, process of this client, goroutine, number, as
          in 2.0.1.17; the client alone in stopped, continued, fault and
          mended; empty in ready and done
   t      nanoseconds of CLOCK_MONOTONIC, which all processes of a machine
          share; on other systems than Linux, of the wall clock
   n      the name, or two with a blank between, in asked; which, in fault and
          mended
   how    the kind of client, in asked
   token, fence   in entered
   err    why, in refused; what the unlock said of a lease that was lost, in
          left
An operation has held its lock from entered to its last held. Without held it
does not count. A lock of two names counts for both. A process that was killed
leaves its last operations unfinished.

Exit status:
     0  the record shows no violation
     1  two clients held a lock at a time; a fence did not rise, or was
        missing; an unlock did not tell of a loss; an operation contradicts
        itself; nobody held a lock; a process ended by itself, or did not end;
        or --check cannot read the record, or --report cannot be written
     2  wrong usage, or the file of --history or --report exists, or that of
        --check does not
    69  no majority of the masters answers, or one does not answer at the
        beginning
   130  interrupted, after the result`

// verifyCommand returns `redlock verify`.
func verifyCommand() *cli.Command {
	return &cli.Command{
		Name:        "verify",
		Usage:       "check the locks on your own masters, with faults",
		Description: verifyDescription + mastersHelp,
		Flags: append(connectFlags(),
			&cli.DurationFlag{Name: "for", Value: verifyFor, Usage: "how long the clients run, from the first lock on"},
			&cli.StringFlag{Name: "history", Usage: "the `FILE` to write, which must not exist; default: a new one in the directory for temporary files"},
			&cli.StringFlag{Name: "check", Usage: "check a `FILE` that was written before, and run nothing"},
			&cli.StringFlag{Name: "report", Usage: "write what the record shows to an HTML `FILE`, which must not exist: a page without a network"},
		),
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := noArguments(cmd); err != nil {
				return err
			}
			page := verifyReport(cmd.String("report"))
			if err := page.free(); err != nil {
				return err
			}
			if cmd.IsSet("check") {
				return checkHistory(cmd, page)
			}
			length := cmd.Duration("for")
			if length < verifyLeast || length > verifyMost {
				return usageErrorf("--for is %v, want %v to %v", length, verifyLeast, verifyMost)
			}
			masters, err := needMasters(cmd, "")
			if err != nil {
				return err
			}
			return verify(ctx, masters, length, cmd.String("history"), page, cmd.Root().Writer, newProgress(cmd.Root().ErrWriter))
		},
	}
}

// checkHistory checks a history that was written before.
func checkHistory(cmd *cli.Command, page verifyReport) error {
	for _, name := range []string{"masters", "for", "history"} {
		if cmd.IsSet(name) {
			return usageErrorf("--check runs nothing, so --%s has no meaning beside it", name)
		}
	}
	f, err := os.Open(cmd.String("check"))
	if err != nil {
		return usageErrorf("--check: %w", err)
	}
	defer f.Close()
	h, records := history.New(), 0
	err = history.Read(f, func(r history.Record) { h.Add(r); records++ })
	if err == nil && records == 0 {
		err = errors.New("line 1 is missing: the file is empty")
	}
	if err != nil {
		return fmt.Errorf("--check: %s: %w", f.Name(), err)
	}
	return page.conclude(h, "the record "+filepath.Base(f.Name()), cmd.Root().Writer)
}

// verify runs the clients and prints the result.
func verify(ctx context.Context, masters []master, length time.Duration, file string, page verifyReport, out io.Writer, shown *progress) error {
	out = shown.over(out)
	ttl, err := verifiedTTL(ctx, masters)
	if err != nil {
		return err
	}
	r := &verification{masters: masters, ttl: ttl, shown: shown, prefix: "redlock-verify-" + rand.Text() + ":", history: history.New()}
	if err := r.await(ctx, out); err != nil {
		return err
	}
	if r.file, err = historyFile(file); err != nil {
		return err
	}
	defer r.file.Close()
	r.log = history.NewRecorder(r.file)
	what := fmt.Sprintf("%s, %d processes, TTL %v, for %v", plural(len(masters), "master"), len(verifyKinds)*verifyEach, ttl, length)
	fmt.Fprintf(out, "%s\nhistory: %s\n\n", what, r.file.Name())
	what += ", from " + time.Now().UTC().Format("2006-01-02 15:04:05 MST")
	if r.supervisor, err = startSupervisor(); err != nil {
		return fmt.Errorf("starting the process that ends the others if this one is killed: %w", err)
	}
	defer r.supervisor.end()
	keys, _ := json.Marshal(verifyKeys{masters[0].given, r.prefix}) // it can be encoded
	r.supervisor.tell(supervise.Leave(string(keys)))
	err = r.run(ctx, length)
	left := r.cleanUp()
	if err != nil {
		return err
	}
	err = page.conclude(r.history, what, out)
	if left != nil {
		fmt.Fprintf(out, "\n%s", fold(fmt.Sprintf("The keys %s* may be left on some masters: %v\n", r.prefix, left), "", "  "))
	}
	if ctx.Err() != nil {
		return ctx.Err() // report says that it was interrupted
	}
	return err
}

// verifiedTTL returns the TTL for the locks: no longer than the MaxTTL of any master.
func verifiedTTL(ctx context.Context, masters []master) (time.Duration, error) {
	declared, errs := make([]time.Duration, len(masters)), make([]error, len(masters))
	atOnce(masters, func(i int, m master) { declared[i], errs[i] = recordedMaxTTL(ctx, m) })
	if err := errors.Join(errs...); err != nil {
		return 0, &statusError{exitNoQuorum, withHint(fmt.Errorf("not all masters answer: %w", err),
			"verify must not raise the MaxTTL of a master, so it asks all of them for theirs before it begins. redlock doctor says more")}
	}
	ttl := verifyTTL
	for _, d := range declared {
		if d > 0 { // a server that is new to redlock has none
			ttl = min(ttl, d)
		}
	}
	return ttl, nil
}

// historyFile creates the file of the history.
func historyFile(name string) (*os.File, error) {
	if name == "" {
		return os.CreateTemp("", "redlock-verify-*.jsonl")
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, usageErrorf("--history: %w", err)
	}
	return f, nil
}

// A verification is one run of the clients.
type verification struct {
	masters []master         // immutable
	ttl     time.Duration    // immutable
	prefix  string           // immutable; of all keys
	history *history.History // immutable
	shown   *progress        // immutable
	file    *os.File
	log     *history.Recorder // writes to file

	supervisor *supervisor // immutable; kills the processes, and deletes the keys, if this process is killed

	clients []*verifyClient
	errs    chan error    // of clients that ended by themselves
	entered chan struct{} // cap 1: receives a value when a client has entered
	held    atomic.Int64  // how many locks were held
}

// enteredMost is for how long the clients may connect, and wait for the first lock. Then their time begins all the same.
const enteredMost = 30 * time.Second

// await waits until a quorum of the masters may vote.
func (r *verification) await(ctx context.Context, out io.Writer) error {
	urls, names, stop, err := r.reachable(ctx)
	if err != nil {
		return err
	}
	defer stop()
	client, err := verifyConfig{Masters: urls, Names: names, TTL: r.ttl, Prefix: r.prefix}.open()
	if err != nil {
		return err
	}
	defer client.Close()
	return awaitQuorum(ctx, client, demoPatience, "redlock doctor says more", out, r.shown)
}

// reachable returns URLs by which the library reaches the masters with the settings of the command, until stop is called.
// Masters with TLS or a socket are reached through relays.
func (r *verification) reachable(ctx context.Context) (urls, names []string, stop func(), err error) {
	ctx, stop = context.WithCancel(context.WithoutCancel(ctx))
	for _, m := range r.masters {
		address := m.Address()
		if m.relayed() {
			if address, _, err = relay(ctx, m); err != nil {
				stop()
				return nil, nil, nil, fmt.Errorf("starting a relay: %w", err)
			}
		}
		urls, names = append(urls, m.At(address)), append(names, m.Address())
	}
	return urls, names, stop, nil
}

// ended returns the error of a client that has ended by itself.
func (r *verification) ended() error {
	select {
	case err := <-r.errs:
		return err
	default:
		return nil
	}
}

// fail ends the run with an error.
func (r *verification) fail(err error) {
	select {
	case r.errs <- err:
	default: // there are others already
	}
}

// run runs the clients for a time, with faults.
func (r *verification) run(ctx context.Context, length time.Duration) error {
	urls, names, stop, err := r.reachable(ctx)
	if err != nil {
		return err
	}
	defer stop()
	r.errs, r.entered = make(chan error, len(verifyKinds)*verifyEach), make(chan struct{}, 1)
	defer func() {
		for _, c := range r.clients {
			c.close()
		}
	}()
	for i := range len(verifyKinds) * verifyEach {
		c, err := r.newClient(i, urls, names)
		if err != nil {
			return err
		}
		r.clients = append(r.clients, c)
		if err := c.start(); err != nil {
			return err
		}
	}
	select { // the time begins when a lock is held: it may take long to start processes, and to connect
	case <-r.entered:
	case <-time.After(enteredMost):
	case <-ctx.Done():
	case err := <-r.errs:
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	defer r.shown.show(func(since time.Duration) string { return r.progress(since, length) })()
	r.makeFaults(ctx)
	if err := r.ended(); err != nil {
		return err
	}
	// Everybody unlocks, and closes. A process that does not within its patience is killed.
	var all sync.WaitGroup
	for _, c := range r.clients {
		all.Go(c.finish)
	}
	all.Wait()
	return r.ended()
}

// progress says how far the run is: the time, what was held, and the faults under way.
func (r *verification) progress(since, length time.Duration) string {
	text := passed(since, length)
	if since >= length {
		text = passed(since, 0) + "; the processes unlock and end"
	}
	text += fmt.Sprintf("; %d locks held", r.held.Load())
	var faults []string
	for _, f := range r.history.Faults() {
		if f.To == 0 && !slices.Contains(faults, f.Name) {
			faults = append(faults, f.Name)
		}
	}
	if len(faults) > 0 {
		text += "; " + strings.Join(faults, ", ")
	}
	return text
}

// cleanUp deletes the keys of the run on all masters.
func (r *verification) cleanUp() error { return deleteVerifyKeys(r.masters, r.prefix) }

func deleteVerifyKeys(masters []master, prefix string) error {
	var keys []any
	for _, name := range verifyNames {
		key := prefix + name
		keys = append(keys, key, "redlock:fence:"+key, "redlock:queue:"+key, "redlock:rqueue:"+key, "redlock:intent:"+key, "redlock:readers:"+key)
	}
	failed := make([]error, len(masters))
	atOnce(masters, func(i int, m master) {
		conn, err := m.dial(context.Background(), dialTimeout)
		if err == nil {
			defer conn.Close()
			_, err = redis.Int(conn.Do("DEL", keys...))
		}
		if err != nil {
			failed[i] = fmt.Errorf("%s: %w", m.Address(), plain(err))
		}
	})
	return errors.Join(failed...)
}

// verifyKeys are the keys of a run, and where its masters are given.
type verifyKeys struct {
	Masters *mastersGiven
	Prefix  string
}

// delete deletes them, as far as possible.
func (k *verifyKeys) delete() {
	if masters, err := k.Masters.read(); err == nil {
		deleteVerifyKeys(masters, k.Prefix)
	}
}
