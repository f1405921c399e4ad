package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/redlock-go/redlock/lab/internal/peers"
)

var redsyncRedigo = &subject{
	name: "redsync",
	settings: "redsync v4 on redigo: its defaults but for the TTL, WithFailFast off; a pool of 20 connections to each master with time-outs of 1 s " +
		"to connect and a twentieth of the TTL to read and write, which is its own limit for one master, since on redigo its contexts do not reach the commands; " +
		"whoever has not got the lock after its 32 tries calls again; holders call Extend at each third of the TTL, and rely on Until",
	open: openRedsync,
	key:  plainKey,
}

type redsyncLocks struct {
	rs    *redsync.Redsync
	pools peers.Redigo
	ttl   time.Duration
}

func openRedsync(s setup) (locks, error) {
	pools := peers.NewRedigo(s.Addrs, 20, 20, peers.Timeouts(s.NodeTimeout)...)
	return &redsyncLocks{rs: pools.Redsync(), pools: pools, ttl: s.TTL}, nil
}

func (l *redsyncLocks) await(context.Context) error { return nil }

func (l *redsyncLocks) close() { l.pools.Close() }

func (l *redsyncLocks) mutex(w wanted) mutex {
	return &redsyncMutex{m: l.rs.NewMutex(w.names[0], redsync.WithExpiry(l.ttl)), ttl: l.ttl}
}

type redsyncMutex struct {
	m        *redsync.Mutex
	ttl      time.Duration
	extended time.Time
}

func (m *redsyncMutex) lock(ctx context.Context) error {
	for {
		err := m.m.LockContext(ctx)
		if err == nil {
			m.extended = time.Now()
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

func (m *redsyncMutex) try(ctx context.Context) error {
	m.extended = time.Now()
	return m.m.TryLockContext(ctx)
}

var errNotUnlocked = errors.New("redsync: Unlock returned false")

func (m *redsyncMutex) unlock() error {
	ok, err := m.m.Unlock()
	if !ok && err == nil {
		err = errNotUnlocked
	}
	if ok {
		return nil // a majority has released it
	}
	return err
}

func (m *redsyncMutex) held() bool { return time.Now().Before(m.m.Until()) }

func (m *redsyncMutex) extend() {
	if time.Since(m.extended) > m.ttl/3 {
		m.extended = time.Now()
		m.m.Extend() // if it fails, Until does not change
	}
}

func (m *redsyncMutex) token() string { return m.m.Value() }
func (m *redsyncMutex) fence() uint64 { return 0 }
