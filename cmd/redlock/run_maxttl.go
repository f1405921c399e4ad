package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/quorum"
)

// maxTTLEvery is how often the masters are asked for their MaxTTL, until a majority has answered.
const maxTTLEvery = time.Second

// checkMaxTTL returns an error, with the exit status, if the run would raise the masters' MaxTTL and --raise-max-ttl is
// missing. Only the masters know their MaxTTL, so it waits for a majority of them, for as long as it may wait for the lock.
// A MaxTTL of no more than the default is not checked, since it costs little and is what most clients declare.
func (w *lockWait) checkMaxTTL(ctx context.Context, in *inbox) error {
	maxTTL := max(w.maxTTL, w.ttl)
	if w.raise || maxTTL <= defaultMaxTTL || maxTTL > longestTTL { // the library refuses the last
		return nil
	}
	var masters time.Duration
	var err error
	if ended := w.untilSignal(ctx, in, func(ctx context.Context) { masters, err = w.awaitMaxTTL(ctx, maxTTL) }); ended != nil {
		return ended
	}
	switch {
	case err != nil:
		hint := "a majority of the masters must say its MaxTTL; redlock doctor says more. Not needed with --raise-max-ttl"
		return &statusError{exitNoQuorum, withHint(fmt.Errorf("no quorum of the masters: %w", err), hint)}
	case masters >= maxTTL:
		return nil
	}
	flag := "--ttl"
	if w.maxTTL > 0 {
		flag = "--max-ttl"
	}
	wait := maxTTL + incarnation.Margin
	return withHint(usageErrorf("%s is %v, but the masters' MaxTTL is %v: all clients would have to wait %v whenever a majority of the masters restarts, "+
		"until an operator lowers it", flag, maxTTL, masters, wait),
		"use a shorter --ttl, or --raise-max-ttl, once. redlock doctor --adopt --max-ttl lowers it")
}

// awaitMaxTTL returns the masters' MaxTTL: the largest that a client has declared, or the default. It waits until one says
// at least enough, or a majority of the masters has answered.
func (w *lockWait) awaitMaxTTL(ctx context.Context, enough time.Duration) (time.Duration, error) {
	if w.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.wait)
		defer cancel()
	}
	for {
		most, err := maxTTLOf(ctx, w.masters, enough)
		if err == nil || w.wait == 0 {
			return most, err
		}
		select {
		case <-time.After(maxTTLEvery):
		case <-ctx.Done():
			return 0, err
		}
	}
}

// maxTTLOf is awaitMaxTTL for one question to each master.
func maxTTLOf(ctx context.Context, masters []master, enough time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		maxTTL time.Duration
		err    error
	}
	answers := make(chan answer, len(masters))
	for _, m := range masters {
		go func() {
			maxTTL, err := recordedMaxTTL(ctx, m)
			answers <- answer{maxTTL, err}
		}()
	}
	most, missing := defaultMaxTTL, quorum.Majority(len(masters))
	var errs []error
	for range masters {
		a := <-answers
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		most = max(most, a.maxTTL)
		if missing--; missing <= 0 || most >= enough {
			return most, nil
		}
	}
	return 0, errors.Join(errs...)
}

// recordedMaxTTL returns the MaxTTL in a master's record, or 0 if there is none.
func recordedMaxTTL(ctx context.Context, m master) (time.Duration, error) {
	conn, err := m.dial(ctx, cmp.Or(runDialTimeout, dialTimeout))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", m.Address(), plain(err))
	}
	defer conn.Close()
	text, err := redis.String(conn.Do("GET", incarnation.Key))
	if err != nil && err != redis.ErrNil {
		return 0, fmt.Errorf("%s: %w", m.Address(), plain(err))
	}
	r, _ := incarnation.Parse(text) // the zero Record if it is none
	return r.MaxTTL, nil
}
