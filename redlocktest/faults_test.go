package redlocktest

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/incarnation"
)

func TestAStoppedMasterCutsItsConnectionsAndRefusesNewOnes(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 2)
		m, c := ms.Master(0), connect(t, ms)
		must(t, c, "OK", "SET", "stock", "a")
		m.Stop()
		m.Stop()
		if _, err := c.Do("GET", "stock"); err == nil {
			t.Error("GET on a connection of a stopped master succeeds, want an error")
		}
		if _, err := m.dial(t.Context(), 0); !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "master 1") {
			t.Errorf("dial = %v, want a refusal by master 1", err)
		}
		if v, ok := m.Get("stock"); !ok {
			t.Errorf("Get = %q, %v, want the memory of a stopped master", v, ok)
		}
		if _, err := ms.Master(1).dial(t.Context(), 0); err != nil {
			t.Errorf("dial of the other master = %v, want nil", err)
		}
		m.Start()
		m.Start()
		must(t, connect(t, ms), "a", "GET", "stock")
	})
}

func TestAReaderOfAStoppedMasterSeesAReset(t *testing.T) {
	everywhere(t, func(t *testing.T, settle func()) {
		ms := StartN(t, 1)
		c := connect(t, ms)
		failed := make(chan error)
		go func() {
			_, err := redis.ReceiveWithTimeout(c, 0)
			failed <- err
		}()
		settle()
		ms.Master(0).Stop()
		if err := <-failed; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Receive = %v, want a reset", err)
		}
	})
}

func TestACrashForgetsKeysAndAnyRestartForgetsScripts(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 1)
		m, c := ms.Master(0), connect(t, ms)
		must(t, c, "OK", "SET", "stock", "a")
		sha, err := redis.String(c.Do("SCRIPT", "LOAD", "return 1"))
		if err != nil {
			t.Fatal(err)
		}
		must(t, c, "1", "EVALSHA", sha, 0)
		m.Stop()
		m.Start()
		c = connect(t, ms)
		must(t, c, "a", "GET", "stock")
		must(t, c, "[0]", "SCRIPT", "EXISTS", sha)
		must(t, c, sha, "SCRIPT", "LOAD", "return 1")
		m.Forget()
		must(t, c, "<nil>", "GET", "stock")
		must(t, c, "[0]", "SCRIPT", "EXISTS", sha)
		m.Set("stock", "a", 0)
		m.Stop()
		m.Forget()
		m.Start()
		if got := m.Keys(); len(got) != 0 {
			t.Errorf("Keys after a crash = %q, want none", got)
		}
		if got := m.Count("SCRIPT"); got != 4 {
			t.Errorf(`Count("SCRIPT") = %d, want 4: only the client's`, got)
		}
	})
}

func TestBlockingCommandsBlockInASecondLifeToo(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 1)
		ms.Master(0).Stop()
		ms.Master(0).Start()
		c, other := connect(t, ms), connect(t, ms)
		send(t, c, "BLPOP", "list", 0)
		must(t, other, "1", "RPUSH", "list", "x")
		if got, err := redis.Strings(c.Receive()); err != nil || got[1] != "x" {
			t.Errorf("BLPOP = %q, %v, want x", got, err)
		}
	})
}

func TestAFrozenMasterExecutesAtTheThawEvenWhatCameThroughClosedConnections(t *testing.T) {
	everywhere(t, func(t *testing.T, settle func()) {
		ms := StartN(t, 1)
		m, patient, gone := ms.Master(0), connect(t, ms), connect(t, ms)
		must(t, gone, "PONG", "PING")
		m.Freeze()
		m.Freeze()
		late := connect(t, ms) // dials succeed
		send(t, patient, "SET", "patient", "1")
		send(t, late, "SET", "late", "1")
		for i := range 100 {
			gone.Send("INCRBY", "gone", i)
		}
		send(t, gone, "PEXPIRE", "gone", 10_000)
		gone.Close()
		if _, err := redis.ReceiveWithTimeout(late, 10*time.Millisecond); !os.IsTimeout(err) {
			t.Errorf("Receive from a frozen master = %v, want a timeout", err)
		}
		late.Close()
		settle()
		if got := m.Keys(); len(got) != 0 {
			t.Fatalf("Keys of a frozen master = %q, want none", got)
		}
		m.Thaw()
		m.Thaw()
		if got, err := patient.Receive(); err != nil || got != "OK" {
			t.Errorf("SET after the thaw = %v, %v, want OK", got, err)
		}
		eventually(t, "the orphans are executed", func() bool {
			v, _ := m.Get("gone")
			_, ok := m.Get("late")
			return ok && v == "4950" && m.TTL("gone") > 9*time.Second
		})
	})
}

func TestAFrozenMasterCanBeKilled(t *testing.T) {
	everywhere(t, func(t *testing.T, settle func()) {
		ms := StartN(t, 1)
		m, c := ms.Master(0), connect(t, ms)
		m.Freeze()
		send(t, c, "SET", "stock", "a")
		c.Send("SET", "stock", "b")
		send(t, c, "SET", "stock", "c")
		settle()
		m.Stop()
		m.Start()
		must(t, connect(t, ms), "<nil>", "GET", "stock") // neither frozen nor affected by old requests
	})
}

func TestADelayedCommandIsExecutedLater(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		ms := StartN(t, 1)
		m, c := ms.Master(0), connect(t, ms)
		m.Delay(70 * time.Millisecond)
		start := time.Now()
		c.Send("SET", "stock", "a")
		send(t, c, "GET", "stock")
		time.Sleep(69 * time.Millisecond)
		synctest.Wait()
		if m.Count("SET") != 0 {
			t.Error("the command was executed before its time")
		}
		c.Receive()
		if v, err := redis.String(c.Receive()); v != "a" || err != nil {
			t.Errorf("GET = %q, %v, want a", v, err)
		}
		if got := time.Since(start); got != 70*time.Millisecond {
			t.Errorf("two commands sent together took %v, want 70ms", got)
		}
		send(t, c, "GET", "stock")
		m.Delay(0)
		must(t, connect(t, ms), "a", "GET", "stock")
		if got := time.Since(start); got != 70*time.Millisecond {
			t.Errorf("a command without delay took until %v, want 70ms", got)
		}
		must(t, c, "a", "GET", "stock") // executed after the delayed request
		if got := time.Since(start); got != 140*time.Millisecond {
			t.Errorf("a command behind a delayed one took until %v, want 140ms", got)
		}
	})
}

func TestADelayOutsideABubbleTakesRealTime(t *testing.T) {
	ms := StartN(t, 1)
	ms.Master(0).Delay(20 * time.Millisecond)
	start := time.Now()
	must(t, connect(t, ms), "PONG", "PING")
	if got := time.Since(start); got < 20*time.Millisecond {
		t.Errorf("PING took %v, want at least 20ms", got)
	}
}

func TestALostReplyIsOfACommandThatWasExecuted(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 1)
		m, c := ms.Master(0), connect(t, ms)
		m.LoseReply("incr")
		c.Send("PING")
		c.Send("INCR", "n")
		send(t, c, "INCR", "n")
		if got, err := c.Receive(); got != "PONG" || err != nil {
			t.Errorf("the reply before the lost one = %v, %v, want PONG", got, err)
		}
		if got, err := c.Receive(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the lost reply = %v, %v, want a reset", got, err)
		}
		must(t, connect(t, ms), "2", "INCR", "n") // executed once; the request after it was lost
	})
}

func TestALostReplyCanBeAScripts(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 1)
		m, c := ms.Master(0), connect(t, ms)
		m.LoseReply("EVAL")
		m.LoseReply("EVAL")
		m.LoseReply("INCR") // a command that a script calls does not lose its reply
		const script = "return redis.call('INCR', 'n')"
		for range 2 {
			if got, err := connect(t, ms).Do("EVAL", script, 0); err == nil {
				t.Errorf("EVAL = %v, want an error", got)
			}
		}
		must(t, c, "3", "EVAL", script, 0)
	})
}

func TestADroppedRequestIsNotExecuted(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 1)
		m, c := ms.Master(0), connect(t, ms)
		m.DropRequest("SET")
		c.Send("PING")
		c.Send("SET", "stock", "a")
		send(t, c, "SET", "other", "a")
		if got, err := c.Receive(); got != "PONG" || err != nil {
			t.Errorf("the reply before = %v, %v, want PONG", got, err)
		}
		if got, err := c.Receive(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the dropped request's reply = %v, %v, want a reset", got, err)
		}
		must(t, connect(t, ms), "0", "EXISTS", "other")
		must(t, connect(t, ms), "OK", "SET", "stock", "b")
	})
}

func TestAFailingMasterAnswersEveryCommandWithTheError(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 1)
		m, c := ms.Master(0), connect(t, ms)
		m.Fail("LOADING Redis is loading the dataset in memory")
		for range 2 {
			if _, err := c.Do("SET", "stock", "a"); err == nil || !strings.HasPrefix(err.Error(), "LOADING ") {
				t.Errorf("SET = %v, want LOADING", err)
			}
		}
		m.Fail("")
		must(t, c, "<nil>", "GET", "stock")
		if m.Count("SET") != 0 {
			t.Errorf(`Count("SET") = %d, want 0`, m.Count("SET"))
		}
	})
}

func TestACutBreaksConnectionsOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, settle func()) {
		ms := StartN(t, 1)
		m, c := ms.Master(0), connect(t, ms)
		m.Freeze()
		c.Send("SET", "stock", "a")
		send(t, c, "SET", "stock", "b")
		settle()
		m.Cut()
		after := connect(t, ms)
		if _, err := c.Receive(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Receive = %v, want a reset", err)
		}
		m.Thaw()
		must(t, after, "<nil>", "GET", "stock")
	})
}

func TestADialHangsUntilItIsResumedOrItsContextEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, settle func()) {
		ms := StartN(t, 1)
		m, c := ms.Master(0), connect(t, ms)
		m.HangDials()
		m.HangDials()
		must(t, c, "PONG", "PING")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := m.dial(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial = %v, want the context's end", err)
		}
		dialled := make(chan error)
		go func() {
			c, err := m.dial(context.Background(), 0)
			if err == nil {
				c.Close()
			}
			dialled <- err
		}()
		settle()
		select {
		case err := <-dialled:
			t.Errorf("dial = %v before it was resumed", err)
		default:
		}
		m.ResumeDials()
		m.ResumeDials()
		if err := <-dialled; err != nil {
			t.Errorf("dial = %v, want nil", err)
		}
	})
}

func TestAMasterCanBeStoppedWhileItAnswersProbes(t *testing.T) {
	ms := StartN(t, 1)
	m := ms.Master(0)
	for i := range 30 {
		var probing sync.WaitGroup
		for range 4 {
			c := connect(t, ms)
			probing.Go(func() {
				for {
					if _, err := c.Do("EVALSHA", strings.Repeat("0", 40), 1, incarnation.Key); err == nil || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
						return // the connection is cut
					}
				}
			})
		}
		for m.Count(probe) < 100*(i+1) {
			runtime.Gosched()
		}
		m.Stop()
		probing.Wait()
		m.Start()
	}
}
