package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/history"
)

const verifierCommandName = "verify-worker"

// The kinds of clients, by how they wait.
const (
	queueing  = "queueing"  // with the defaults
	unrenewed = "unrenewed" // its leases are not renewed, or have two names
	polls     = "polls"     // it has DisableWakeups
)

var (
	verifyKinds = []string{queueing, unrenewed, polls}
	verifyNames = []string{"short", "long"}
)

const verifyEach = 2 // processes of each kind

// A verifyConfig is what a process of `redlock verify` reads from its standard input.
type verifyConfig struct {
	Kind         string
	Client, Life int
	Masters      []string // URLs
	Names        []string // what errors call the masters
	Prefix       string
	TTL          time.Duration
}

// open opens the client. Its MaxTTL is that of its leases, so that it raises none.
func (c verifyConfig) open() (*redlock.Client, error) {
	lock := redlock.LockOptions{TTL: c.TTL, Fencing: true}
	if c.Kind == unrenewed {
		lock.RenewEvery = -1
	}
	return redlock.Open(c.Masters, &redlock.Options{
		LockOptions:    lock,
		MaxTTL:         c.TTL,
		Prefix:         c.Prefix,
		Names:          c.Names,
		DisableWakeups: c.Kind == polls,
		Logger:         slog.New(slog.DiscardHandler),
	})
}

// verifierCommand returns the hidden command by which `redlock verify` starts its processes. One reads its verifyConfig,
// locks and unlocks, and writes what it holds, until its standard input says so or ends.
func verifierCommand() *cli.Command {
	return &cli.Command{
		Name:         verifierCommandName,
		Usage:        "a process of `redlock verify`, which starts it",
		Hidden:       true,
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			in := json.NewDecoder(cmd.Root().Reader)
			var cfg verifyConfig
			if err := in.Decode(&cfg); err != nil {
				return usageErrorf("%s is started by `redlock verify`, not by hand", verifierCommandName)
			}
			return verifyWork(ctx, cfg, in, cmd.Root().Writer)
		},
	}
}

// verifyWork is the life of a process.
func verifyWork(ctx context.Context, cfg verifyConfig, in *json.Decoder, out io.Writer) error {
	signal.Ignore(os.Interrupt) // a terminal sends it to redlock verify, too, which ends its processes
	client, err := cfg.open()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		var order any
		if in.Decode(&order) == nil {
			stop()
			in.Decode(&order) // returns when redlock verify has ended, however it did
		}
		os.Exit(exitFailure)
	}()
	log := history.NewRecorder(out)
	log.Write(history.Record{Kind: history.Ready, At: history.Now()})
	var all sync.WaitGroup
	for i, name := range verifyNames {
		v := &verifier{cfg: cfg, client: client, name: name, log: log, id: fmt.Sprintf("%d.%d.%d", cfg.Client, cfg.Life, i)}
		all.Go(func() { v.loop(ctx) })
	}
	all.Wait()
	client.Close()
	log.Write(history.Record{Kind: history.Done, At: history.Now()})
	return nil
}

// A verifier is one goroutine that locks and unlocks.
type verifier struct {
	cfg    verifyConfig
	client *redlock.Client
	name   string
	log    *history.Recorder
	id     string // client.life.goroutine
	n      int    // of the operation
}

const (
	pauseLeast = 20 * time.Millisecond // between two locks of a goroutine
	pauseMost  = 140 * time.Millisecond
	heldEvery  = 20 * time.Millisecond // how often a holder records that its lease is valid
)

// between returns a random time.
func between(least, most time.Duration) time.Duration { return least + rand.N(most-least) }

func (v *verifier) loop(ctx context.Context) {
	for ctx.Err() == nil {
		v.n++
		v.once(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(between(pauseLeast, pauseMost)):
		}
	}
}

// once makes one operation.
func (v *verifier) once(ctx context.Context) {
	names := []string{v.name}
	if v.cfg.Kind == unrenewed && v.n%4 == 0 {
		names = verifyNames
	}
	l := v.client.Locker(names[0], names[1:]...)
	v.write(history.Record{Kind: history.Asked, Name: strings.Join(names, " "), How: v.cfg.Kind})
	if err := l.LockContext(ctx); err != nil {
		v.write(history.Record{Kind: history.Refused, Err: err.Error()})
		return
	}
	v.hold(l.Lease())
	v.write(history.Record{Kind: history.Leaving})
	text := ""
	if err := l.UnlockContext(context.Background()); errors.Is(err, redlock.ErrLost) {
		text = err.Error() // other errors say that masters have not answered
	}
	v.write(history.Record{Kind: history.Left, Err: text})
}

// hold holds the lease for a while, or until it is lost.
func (v *verifier) hold(lease *redlock.Lease) {
	v.write(history.Record{Kind: history.Entered, Token: lease.Token(), Fence: lease.Fence()})
	length := between(0, v.cfg.TTL/150)
	if v.name != verifyNames[0] {
		length = between(v.cfg.TTL/150, v.cfg.TTL/8)
	}
	end := history.Now() + int64(length)
	for written := int64(0); ; {
		at := history.Now()
		if !lease.Valid() {
			v.write(history.Record{Kind: history.Lost})
			return
		}
		over := at >= end
		if over || at-written >= int64(heldEvery) {
			v.write(history.Record{Kind: history.Held, At: at})
			written = at
		}
		if over {
			return
		}
		time.Sleep(min(2*time.Millisecond, time.Duration(end-at)))
	}
}

func (v *verifier) write(r history.Record) {
	r.Op = fmt.Sprintf("%s.%d", v.id, v.n)
	if r.At == 0 {
		r.At = history.Now()
	}
	v.log.Write(r)
}
