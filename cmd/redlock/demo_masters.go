package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlock-go/redlock"
)

// embeddedMasters is how many masters the demo brings along: the usual five, of which two
// may be missing.
const embeddedMasters = 5

// demoMasters is the set of masters a demo runs on, and the one among them, the victim,
// that it takes away half way.
type demoMasters struct {
	urls     []string // immutable; what workers open: may hold passwords, never printed
	names    []string // immutable; what is printed
	embedded bool     // immutable; ours to stop

	victim int    // immutable; index of the master to take away, -1 for none
	take   func() // immutable; takes the victim away; nil if there is none
	free   func() // immutable; ends whatever the demo has started
	scrub  *strings.Replacer
}

// openMasters returns the given masters, or embedded ones if there are none given. It is
// the one place where the demo's masters come from.
func openMasters(given []master) (*demoMasters, error) {
	if len(given) == 0 {
		return startEmbedded(embeddedMasters)
	}
	return useServers(given)
}

// startEmbedded starts n masters in this process, on loopback TCP.
func startEmbedded(n int) (*demoMasters, error) {
	set := &demoMasters{embedded: true, victim: n / 2, scrub: strings.NewReplacer()}
	var servers []*miniredis.Miniredis
	set.free = func() {
		for _, s := range servers {
			s.Close() // also twice
		}
	}
	for range n {
		s := miniredis.NewMiniRedis()
		if err := s.Start(); err != nil {
			set.free()
			return nil, fmt.Errorf("starting an embedded master: %w", err)
		}
		s.ClockTTL(true) // else a lease of a dead worker would never run out
		servers = append(servers, s)
		// Nobody else has ever seen it, so there is no quarantine to wait for.
		if err := adopt(context.Background(), master{name: s.Addr(), addr: s.Addr()}); err != nil {
			set.free()
			return nil, fmt.Errorf("adopting an embedded master: %w", err)
		}
		set.urls = append(set.urls, "redis://"+s.Addr())
		set.names = append(set.names, s.Addr())
	}
	set.take = servers[set.victim].Close
	return set, nil
}

// useServers runs the demo on somebody's servers. Those are not ours to stop, nor to freeze:
// CLIENT PAUSE would stop their other users too. So the workers reach the victim through a
// relay in this process, and what is cut half way is the demo's own connections. Nor are they
// ours to adopt, since somebody may hold a lock there.
func useServers(given []master) (*demoMasters, error) {
	set := &demoMasters{victim: -1, free: func() {}}
	var secrets []string
	for _, m := range given {
		set.urls = append(set.urls, m.url)
		set.names = append(set.names, m.name)
		secrets = append(secrets, m.secrets()...)
	}
	if i := chooseVictim(given); i >= 0 {
		r, err := startRelay(given[i])
		if err != nil {
			return nil, err
		}
		set.victim, set.urls[i] = i, r.url
		set.take, set.free = r.cut, r.cut
		secrets = append(secrets, r.addr(), given[i].name) // errors shall name the master
	}
	set.scrub = strings.NewReplacer(secrets...)
	return set, nil
}

// chooseVictim returns the index of the master to do without, or -1: of one or two masters
// each is needed for a majority, and a unix socket has no relay.
func chooseVictim(given []master) int {
	n := len(given)
	if n < 3 {
		return -1
	}
	for i := range n {
		if at := (n/2 + i) % n; given[at].addr != "" {
			return at
		}
	}
	return -1
}

// victimName names the victim for the reader, such as "master 3 of 5 (127.0.0.1:6381)".
func (s *demoMasters) victimName() string {
	return fmt.Sprintf("master %d of %d (%s)", s.victim+1, len(s.names), s.names[s.victim])
}

const (
	// demoTTL is the lease's TTL and the longest one that the demo's clients know of. The
	// name is the demo's own, so no other client's TTL matters to it, and a short one keeps
	// the quarantine of masters that redlock has never seen short.
	demoTTL = 3 * time.Second

	connectPatience = 3 * time.Second         // for masters that cannot be reached
	quorumPatience  = demoTTL + 5*time.Second // for those that can: a quarantine is 2 s longer than the TTL
)

// openClient opens the demo's client of the masters at urls.
func openClient(urls []string, logger *slog.Logger) (*redlock.Client, error) {
	return redlock.Open(urls, &redlock.Options{
		LockOptions: redlock.LockOptions{TTL: demoTTL},
		MaxTTL:      demoTTL,
		Logger:      logger,
	})
}

// checkMasters waits until a quorum of the masters may vote, and says so in p. Asked once
// at the start it gives one error instead of one from each worker.
func (s *demoMasters) checkMasters(ctx context.Context, p *progress) error {
	client, err := openClient(s.urls, slog.New(slog.DiscardHandler))
	if err != nil {
		return withHint(s.redact(err), "redlock demo --masters host1:6379,host2:6379,host3:6379")
	}
	defer client.Close()
	const waiting = "waiting for the masters ..."
	p.wait(waiting)
	err = awaitQuorum(ctx, client, func(wait time.Duration) {
		p.note(fmt.Sprintf("A lock has to wait %s: too few of the masters may vote yet, for they are new to redlock or\n"+
			"  have restarted, and may have forgotten locks. Only if nobody holds one on them, let them vote\n"+
			"  at once:  redlock doctor --adopt", whole(wait)))
		p.wait(waiting)
	})
	if err != nil {
		return withHint(s.redact(err), "a majority of the masters must answer; `redlock demo` alone brings its own")
	}
	return nil
}

// redact returns err without anything that must not be printed.
func (s *demoMasters) redact(err error) error {
	if clean := s.scrub.Replace(err.Error()); clean != err.Error() {
		return errors.New(clean)
	}
	return err
}

// awaitQuorum waits until a quorum of client's masters may vote. Masters that cannot be
// reached get connectPatience; if enough are there, and only not ready to vote, time mends
// that and they get quorumPatience. quarantined, unless it is nil, is called once, in that
// case, and told how long it will take.
func awaitQuorum(ctx context.Context, client *redlock.Client, quarantined func(wait time.Duration)) error {
	start := time.Now()
	for {
		ask, cancel := context.WithTimeout(ctx, connectPatience)
		err := client.Ping(ask)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		masters := client.Masters()
		patience := quorumPatience
		if tooManyDown(masters) {
			patience = connectPatience
		}
		if wait := quarantineOf(masters); wait > 0 && quarantined != nil {
			quarantined(wait)
			quarantined = nil
		}
		if time.Since(start) > patience {
			return fmt.Errorf("no quorum of the masters: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// quarantineOf returns how long it takes until a majority may vote, if only quarantines keep it
// from that; else 0.
func quarantineOf(masters []redlock.MasterStatus) time.Duration {
	missing := len(masters)/2 + 1
	var waits []time.Duration
	for _, m := range masters {
		switch m.State {
		case redlock.MasterUp:
			missing--
		case redlock.MasterQuarantined:
			waits = append(waits, time.Until(m.Until))
		}
	}
	if missing <= 0 || missing > len(waits) {
		return 0
	}
	slices.Sort(waits)
	return waits[missing-1]
}

// tooManyDown reports whether the masters that are not down fall short of a majority.
func tooManyDown(masters []redlock.MasterStatus) bool {
	down := 0
	for _, m := range masters {
		if m.State == redlock.MasterDown {
			down++
		}
	}
	return len(masters)-down <= len(masters)/2
}
