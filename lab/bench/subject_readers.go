package main

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/redlock-go/redlock"
)

// rwLocks is an open client of a subject that has locks for readers and writers. Its mutexes are those of readers.
type rwLocks interface {
	locks
	rw(name string) rwMutex
	writer(name string) mutex
}

// An rwMutex is what readers of a lock call in a tight loop.
type rwMutex interface {
	RLock()
	RUnlock()
}

// withReaders is ours with RWLockers.
type withReaders struct{ ours }

func openReaders(s setup) (locks, error) {
	l, err := openOurs(s)
	if err != nil {
		return nil, err
	}
	return withReaders{l.(ours)}, nil
}

func (o withReaders) rw(name string) rwMutex   { return o.rwLocker(name) }
func (o withReaders) mutex(name string) mutex  { return ourMutex{o.rwLocker(name).RLocker()} }
func (o withReaders) writer(name string) mutex { return ourMutex{o.rwLocker(name).Locker()} }

// An rwLocker is a redlock.RWLocker. Other commits, with which this program is built, too, may have none.
type rwLocker interface {
	rwMutex
	Locker() *redlock.Locker
	RLocker() *redlock.Locker
}

func (o withReaders) rwLocker(name string) rwLocker {
	l := reflect.ValueOf(o.client).MethodByName("RWLocker").Call([]reflect.Value{reflect.ValueOf(name)})
	return l[0].Interface().(rwLocker)
}

// await connects to the masters.
func (o withReaders) await(ctx context.Context) error {
	if err := o.client.Ping(ctx); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	return nil
}

// inProcess is a sync.RWMutex for each name.
type inProcess struct {
	mu     sync.Mutex // guards byName
	byName map[string]*sync.RWMutex
}

func openInProcess(setup) (locks, error) {
	return &inProcess{byName: make(map[string]*sync.RWMutex)}, nil
}

func (p *inProcess) of(name string) *sync.RWMutex {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byName[name] == nil {
		p.byName[name] = &sync.RWMutex{}
	}
	return p.byName[name]
}

func (p *inProcess) rw(name string) rwMutex   { return p.of(name) }
func (p *inProcess) mutex(name string) mutex  { return inProcessMutex{p.of(name).RLocker()} }
func (p *inProcess) writer(name string) mutex { return inProcessMutex{p.of(name)} }
func (p *inProcess) close()                   {}

type inProcessMutex struct{ sync.Locker }

func (m inProcessMutex) lock(context.Context) error {
	m.Lock()
	return nil
}

func (m inProcessMutex) unlock() error {
	m.Unlock()
	return nil
}
