package main

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/history"
)

// A write is what a holder sends to the store.
type write struct {
	Op    string
	Name  string
	Fence uint64 // 0 if the lock has no fences
}

// An entry is a write that the store has handled.
type entry struct {
	write
	at       int64
	accepted bool
}

// A store is the resource that the locks protect. It remembers the highest fence of each name, and
// refuses writes with a lower one. Some writes arrive late, as in a slow network.
type store struct {
	listener net.Listener
	ttl      time.Duration // immutable

	mu      sync.Mutex // guards what follows
	rng     *rand.Rand
	highest map[string]uint64
	entries []entry
}

func newStore(ttl time.Duration, rng *rand.Rand) (*store, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &store{listener: l, ttl: ttl, rng: rng, highest: make(map[string]uint64)}
	go s.accept()
	return s, nil
}

func (s *store) addr() string { return s.listener.Addr().String() }
func (s *store) close()       { s.listener.Close() }

func (s *store) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.serve(c)
	}
}

func (s *store) serve(c net.Conn) {
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		var w write
		if json.Unmarshal(in.Bytes(), &w) != nil {
			return
		}
		if d := s.delay(); d > 0 {
			time.AfterFunc(d, func() { s.handle(w) })
		} else {
			s.handle(w)
		}
	}
}

// delay returns the delay of a write: 0, or up to two TTLs for one write in twenty.
func (s *store) delay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rng.IntN(20) > 0 {
		return 0
	}
	return time.Duration(s.rng.Int64N(int64(2 * s.ttl)))
}

func (s *store) handle(w write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := entry{write: w, at: history.Now(), accepted: w.Fence >= s.highest[w.Name]}
	if e.accepted {
		s.highest[w.Name] = w.Fence
	}
	s.entries = append(s.entries, e)
}

func (s *store) log() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]entry(nil), s.entries...)
}

// A storeClient sends writes to the store. There are no replies.
type storeClient struct {
	mu  sync.Mutex // guards enc
	enc *json.Encoder
}

func dialStore(addr string) (*storeClient, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &storeClient{enc: json.NewEncoder(c)}, nil
}

func (c *storeClient) send(w write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enc.Encode(w) // fails at the end of the run
}
