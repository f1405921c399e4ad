package redlocktest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/bubbletest"
)

// everywhere runs a test in a bubble and outside of one, since the masters must work in both. Outside of a
// bubble a test may wait only for what happens without its help.
func everywhere(t *testing.T, f func(t *testing.T, settle func())) {
	t.Helper()
	t.Run("in a bubble", func(t *testing.T) {
		bubbletest.Test(t, func(t *testing.T) { f(t, synctest.Wait) })
	})
	t.Run("outside", func(t *testing.T) {
		f(t, func() {})
	})
}

// connect returns a new connection to the first master.
func connect(t *testing.T, ms *Masters) redis.Conn {
	t.Helper()
	c, err := ms.Master(0).dial(t.Context(), 0)
	if err != nil {
		t.Fatalf("dial = %v, want nil", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// must sends a command and fails t unless the answer is want.
func must(t *testing.T, c redis.Conn, want string, command string, args ...any) {
	t.Helper()
	reply, err := c.Do(command, args...)
	if b, ok := reply.([]byte); ok {
		reply = string(b)
	}
	if got := fmt.Sprint(reply); err != nil || got != want {
		t.Fatalf("%s %v = %v, %v, want %s", command, args, got, err, want)
	}
}

// send sends a command and does not wait for the answer.
func send(t *testing.T, c redis.Conn, command string, args ...any) {
	t.Helper()
	if err := errors.Join(c.Send(command, args...), c.Flush()); err != nil {
		t.Fatalf("send %s %v: %v, want nil", command, args, err)
	}
}

// eventually waits until cond holds because of other goroutines.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in two minutes: %s", what)
		}
	}
}

func TestEveryMasterHasAMemoryOfItsOwn(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := Start(t)
		if ms.Len() != 5 {
			t.Errorf("Len() = %d, want 5", ms.Len())
		}
		for i, p := range ms.Pools() {
			c := p.Get()
			if i > 0 {
				must(t, c, "OK", "SET", "stock", i)
			}
			c.Close()
		}
		if got, want := ms.Get("stock"), []string{"", "1", "2", "3", "4"}; !slices.Equal(got, want) {
			t.Errorf("Get = %q, want %q", got, want)
		}
		if got, want := ms.Names()[4], ms.Master(4).Name(); got != want || got != "master 5" {
			t.Errorf("Names()[4] = %q, Name() = %q, want master 5", got, want)
		}
	})
}

func TestAKeyExpiresByTheTestsClock(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		ms := StartN(t, 1)
		c := connect(t, ms)
		must(t, c, "OK", "SET", "stock", "a", "NX", "PX", 10_000)
		time.Sleep(9999 * time.Millisecond)
		if got := ms.Master(0).TTL("stock"); got != time.Millisecond {
			t.Errorf("TTL = %v, want 1ms", got)
		}
		must(t, c, "<nil>", "SET", "stock", "b", "NX", "PX", 10_000)
		time.Sleep(time.Millisecond)
		must(t, c, "OK", "SET", "stock", "b", "NX", "PX", 10_000)
	})
}

func TestAKeyExpiresOutsideABubbleToo(t *testing.T) {
	ms := StartN(t, 1)
	must(t, connect(t, ms), "OK", "SET", "stock", "a", "PX", 20)
	eventually(t, "the key expires", func() bool { _, ok := ms.Master(0).Get("stock"); return !ok })
}

func TestATestCanReadAndChangeKeys(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 1)
		m, c := ms.Master(0), connect(t, ms)
		must(t, c, "1", "ZADD", "stock", 1, "x")
		if v, ok := m.Get("stock"); ok {
			t.Errorf("Get of a sorted set = %q, true, want false", v)
		}
		m.Set("stock", "a", time.Hour)
		m.Set("other", "b", 0)
		if ttl := m.TTL("stock"); ttl <= 59*time.Minute || m.TTL("other") != 0 {
			t.Errorf("TTL = %v and %v, want an hour and 0", ttl, m.TTL("other"))
		}
		if got := m.Keys(); !slices.Equal(got, []string{"other", "stock"}) {
			t.Errorf("Keys = %q, want other and stock", got)
		}
		if !m.Del("stock") || m.Del("stock") {
			t.Error("Del: want true for a key that was there, then false")
		}
		must(t, c, "<nil>", "GET", "stock")
	})
}

func TestCommandsOfClientsAreCountedAndThoseOfScriptsAreNot(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 1)
		m, c := ms.Master(0), connect(t, ms)
		must(t, c, "OK", "set", "stock", "a", "PX", 1000)
		must(t, c, "1", "EVAL", "redis.call('SET', KEYS[1], '') return redis.pcall('DEL', KEYS[1])", 1, "stock")
		must(t, c, "<nil>", "GET", "")
		if m.Count("Set") != 1 || m.Count("DEL") != 0 || m.Count("EVAL") != 1 {
			t.Errorf("Count = %d, %d, %d, want 1, 0, 1", m.Count("Set"), m.Count("DEL"), m.Count("EVAL"))
		}
		want := []string{
			"SET stock a PX 1000",
			`EVAL "redis.call('SET', KEYS[1], '') return redis.pcall('DEL', KEYS[1])" 1 stock`,
			`GET ""`,
		}
		if got := m.Commands(); !slices.Equal(got, want) {
			t.Errorf("Commands = %q, want %q", got, want)
		}
	})
}

// TestNothingIsLeftBehind leaves every fault on, with clients blocked by each. In a bubble a goroutine that
// is left fails the test. Outside of one the goroutines are counted.
func TestNothingIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	everywhere(t, func(t *testing.T, settle func()) {
		ms := Start(t)
		stuck := make(chan struct{}, 5)
		t.Cleanup(func() { // runs first, before the clean-up of the masters
			settle()
			ms.release()
			for range cap(stuck) {
				<-stuck
			}
			ms.Master(1).Freeze()
			ms.Master(2).HangDials()
		})
		faults := []func(*Master){
			(*Master).Stop, (*Master).Freeze, (*Master).HangDials,
			func(m *Master) { m.Delay(time.Hour) },
			func(m *Master) { m.LoseReply("PING"); m.Fail("ERR no") },
		}
		for i, p := range ms.Pools() {
			c := p.Get()
			c.Do("PING")
			faults[i](ms.Master(i))
			go func() {
				if i == 2 {
					c.Close()
					c = p.Get()
				}
				c.Send("PING")
				c.Flush()
				redis.ReceiveWithTimeout(c, 50*time.Millisecond)
				c.Close()
				stuck <- struct{}{}
			}()
		}
	})
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
}

func TestADialThatHangsIsResumedWhenTheTestEnds(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		m := StartN(t, 1).Master(0)
		m.HangDials()
		go m.dial(context.Background(), 0) // if it does not return, the bubble ends in a deadlock
		synctest.Wait()
	})
}

func TestAMasterForgetsItsConnections(t *testing.T) {
	everywhere(t, func(t *testing.T, settle func()) {
		ms := StartN(t, 1)
		m := ms.Master(0)
		known := func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.peers) + len(m.links)
		}
		none := func() bool { return known() == 0 }
		for range 3 {
			c := connect(t, ms)
			must(t, c, "PONG", "PING")
			c.Close()
		}
		eventually(t, "closed connections are forgotten", none)
		c := connect(t, ms)
		must(t, c, "PONG", "PING")
		m.Freeze()
		send(t, c, "PING")
		settle() // wait until the master holds the command back
		m.Cut()
		eventually(t, "a cut connection is forgotten, thaw or no thaw", none)
	})
}

// TestFaultsCanBeSwitchedFromAnywhere is a test for the race detector.
func TestFaultsCanBeSwitchedFromAnywhere(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 2)
		done := make(chan struct{})
		for range 4 {
			pools := ms.Pools()
			go func() {
				for i := range 100 {
					c := pools[i%2].Get()
					c.Send("INCR", "n")
					c.Flush()
					redis.ReceiveWithTimeout(c, 5*time.Millisecond)
					c.Close()
				}
				done <- struct{}{}
			}()
		}
		go func() {
			for i := range 50 {
				m := ms.Master(i % 2)
				for _, f := range []func(){
					m.Freeze, m.Cut, m.Thaw, m.Stop, m.Forget, m.Start, m.Freeze, m.Stop, m.Start, m.HangDials, m.ResumeDials,
					func() { m.LoseReply("INCR"); m.DropRequest("INCR"); m.Commands(); m.Get("n") },
				} {
					f()
					time.Sleep(50 * time.Microsecond)
				}
			}
			done <- struct{}{}
		}()
		for range 5 {
			<-done
		}
	})
}
