package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// Clients share a semaphore, one of them goes without releasing, and a server dies.
func TestASemaphoreOnRealServers(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	const limit = 3
	opts := func(ttl time.Duration) *redlock.Options {
		return &redlock.Options{NodeTimeout: min(ttl/2, nodeTimeout), MaxTTL: 10 * time.Second, LockOptions: redlock.LockOptions{TTL: ttl}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	gone := openReal(t, servers, opts(2*time.Second))
	p, err := gone.Semaphore("a", limit).AcquireN(ctx, limit)
	if err != nil {
		t.Fatal(err)
	}
	clients := []*redlock.Client{openReal(t, servers, opts(10*time.Second)), openReal(t, servers, opts(10*time.Second))}
	if extra, err := clients[0].Semaphore("a", limit).TryAcquire(ctx); !errors.Is(err, redlock.ErrHeld) && p.Valid() {
		t.Errorf("TryAcquire of a full semaphore: %v", err)
	} else if err == nil { // p was lost, on a busy machine
		extra.Release()
	}
	var mu sync.Mutex
	held, most := make(map[int]*redlock.Permit), 0
	var all sync.WaitGroup
	for i := range 8 {
		s := clients[i%2].Semaphore("a", limit)
		all.Go(func() {
			for range 10 {
				p, err := s.AcquireN(ctx, 1+i/7) // one of them wants two
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, slot := range p.Slots() {
					// At the moment of the first question, p has been acquired already.
					if former := held[slot]; former != nil && former.Valid() && p.Valid() {
						t.Errorf("two hold slot %d", slot)
					}
					held[slot] = p
				}
				most = max(most, len(held))
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				for _, slot := range p.Slots() {
					if held[slot] == p { // else it was lost, and the next holder has come
						delete(held, slot)
					}
				}
				mu.Unlock()
				p.Release()
			}
		})
	}
	gone.Close() // which releases nothing: the permits come back when they expire
	<-p.Done()
	servers[2].Kill()
	all.Wait()
	if most > limit || most == 0 {
		t.Errorf("up to %d permits were held, the limit is %d", most, limit)
	}
}

// Clients share a semaphore with Fencing, for one permit and for two, and a server dies: the fences of the holders of each slot rise.
func TestFencesOfPermitsOnRealServersRiseBySlot(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	last := make(map[int]uint64)
	var all sync.WaitGroup
	for i := range 6 {
		c := openReal(t, servers, &redlock.Options{NodeTimeout: time.Second, MaxTTL: 5 * time.Second,
			LockOptions: redlock.LockOptions{TTL: 5 * time.Second, Fencing: true}})
		all.Go(func() {
			for turn := range 30 {
				p, err := c.Semaphore("a", 3).AcquireN(ctx, 1+i/4)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, slot := range p.Slots() {
					if p.Fence() <= last[slot] && p.Valid() {
						t.Errorf("turn %d of client %d: slot %d has fence %d after %d", turn, i, slot, p.Fence(), last[slot])
					}
					last[slot] = max(last[slot], p.Fence())
				}
				mu.Unlock()
				if i == 0 && turn == 10 {
					servers[2].Kill()
				}
				p.Release()
			}
		})
	}
	all.Wait()
	if len(last) != 3 {
		t.Errorf("only slots of %v were held", last)
	}
}

const (
	killedPermits = 16
	killedTTL     = 4 * time.Second
)

func killedOptions() *redlock.Options {
	return &redlock.Options{NodeTimeout: time.Second, MaxTTL: killedTTL, LockOptions: redlock.LockOptions{TTL: killedTTL}}
}

// playPermits acquires all permits of a semaphore, says so, and holds them until it is killed. A permit that was granted is valid for
// 400 ms at first. One that is lost before its first renewal, on a busy machine, is acquired again. If more than half of them are lost, the process ends.
func playPermits() int {
	c, err := redlock.Open(strings.Split(os.Getenv(mastersVariable), ","), killedOptions())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	have := make(chan error)
	var lost atomic.Int32
	for range killedPermits {
		go func() {
			for once := sync.OnceFunc(func() { have <- nil }); ; {
				p, err := acquireRenewed(context.Background(), c.Semaphore("a", killedPermits))
				if err != nil {
					have <- err
					return
				}
				once()
				<-p.Done()
				if lost.Add(1) > killedPermits/2 {
					fmt.Fprintln(os.Stderr, "most permits were lost")
					os.Exit(1)
				}
				p.Release()
			}
		}()
	}
	for range killedPermits {
		if err := <-have; err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	fmt.Println("full")
	select {}
}

// acquireRenewed acquires a permit of killedOptions until one has been renewed once.
func acquireRenewed(ctx context.Context, s *redlock.Semaphore) (*redlock.Permit, error) {
	for {
		p, err := s.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		for p.Valid() && time.Until(p.Until()) < killedTTL/2 {
			time.Sleep(time.Millisecond)
		}
		if p.Valid() {
			return p, nil
		}
		p.Release()
	}
}

// The permits of a process that is killed all come back. TestThePermitsOfAKilledProcessComeBackAfterATTL says by when, where the
// machine cannot delay it.
func TestTheSixteenPermitsOfAKilledProcessComeBack(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 5)
	c := openReal(t, servers, killedOptions())
	s := c.Semaphore("a", killedPermits)
	var process *exec.Cmd
	for n, holds := 0, false; !holds; n++ {
		if n == 3 {
			t.Fatal("three processes have lost most of their permits")
		}
		var says <-chan string
		process, says = spawnLines(t, "permits", servers)
		ended := <-says != "full"
		full := func() bool {
			select {
			case <-says:
				ended = true
			default:
			}
			p, err := s.TryAcquire(t.Context())
			if err == nil {
				p.Release()
			}
			holds = errors.Is(err, redlock.ErrHeld)
			return ended || holds
		}
		eventually(t, "the process holds all permits", full)
		if !ended {
			time.Sleep(2 * killedTTL) // it renews them
			eventually(t, "it holds them after two TTLs", full)
		}
		holds = holds && !ended
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	process.Process.Kill()
	killed := time.Now()
	var mu sync.Mutex
	slots := make(map[int]bool)
	var all sync.WaitGroup
	for range killedPermits {
		all.Go(func() {
			p, err := acquireRenewed(ctx, s)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			slots[p.Slots()[0]] = true
		})
	}
	all.Wait()
	if len(slots) != killedPermits {
		t.Errorf("%d of %d slots came back", len(slots), killedPermits)
	}
	t.Logf("the last of %d permits came back %v after the process was killed; its TTL was %v", killedPermits, time.Since(killed), killedTTL)
}
