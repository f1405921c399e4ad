package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A subject is a library with one set of settings.
type subject struct {
	name     string
	settings string
	fences   bool
	open     func(setup) (locks, error)
	key      func(name string, master int) string // the lock's key on a master
}

// A setup has what a subject needs to open a client.
type setup struct {
	Addrs       []string // the masters, through the client's links
	TTL         time.Duration
	Fenced      bool          // fences for RWLockers
	Keep        time.Duration // redlock's LockOptions.Keep
	NodeTimeout time.Duration // how long a peer waits for one master; redlock has a default
	Client      int
	Traits      traits // of ours
}

// locks is an open client of a subject.
type locks interface {
	// mutex returns a lock for one goroutine.
	mutex(wanted) mutex
	// await waits until the client is connected.
	await(ctx context.Context) error
	close()
}

// A mutex is a lock of the subject.
type mutex interface {
	// lock waits for the lock until ctx ends.
	lock(ctx context.Context) error
	// try tries once.
	try(ctx context.Context) error
	unlock() error
	// held reports whether the holder may still rely on the lock.
	held() bool
	// extend is called every few milliseconds while the lock is held.
	extend()
	token() string
	fence() uint64
}

// A waiter is a mutex that can wait without a limit.
type waiter interface{ wait() }

// A doer is a mutex that can run a function while it holds the lock.
type doer interface {
	do(ctx context.Context, f func()) error
}

func plainKey(name string, _ int) string { return name }

var subjects = []*subject{ours, redsyncRedigo, rueidisLock}

func subjectByName(name string) (*subject, error) {
	var names []string
	for _, s := range subjects {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return nil, fmt.Errorf("no subject %q: there are %s", name, strings.Join(names, ", "))
}
