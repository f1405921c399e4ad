package master

import (
	"fmt"
	"github.com/redlock-go/redlock/internal/wire"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAForbiddenKeyFailsAloneInABatch(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		if cmd[0] == "EVALSHA" && strings.Contains(strings.Join(cmd, " "), " bad ") {
			return "-NOPERM this user has no permissions to access one of the keys\r\n"
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		names := []string{"a", "b", "bad", "c", "d"}
		got := make([]answers, len(names))
		for i, name := range names {
			m.Ask(wire.Renew, claimOf(name), &got[i]) // no goroutine switch in between, so they share a flush
		}
		synctest.Wait()
		for i, name := range names {
			a := got[i].get()
			if len(a) != 1 || (a[0].Err != nil) != (name == "bad") || a[0].Err == nil && a[0].Outcome != wire.Granted {
				t.Errorf("%s was answered %v", name, a)
			}
		}
	})
}

func TestEachCommandOfABatchHasItsOwnAnswer(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		if cmd[0] == "EVALSHA" {
			return map[string]string{
				"4": "*4\r\n:1\r\n:0\r\n:-1\r\n-OOM command not allowed\r\n",
			}[cmd[2]]
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		got := make([]answers, 4)
		m.mu.Lock() // all in one flush
		for i := range got {
			m.outbox.push(newItem(wire.Renew, claimOf(fmt.Sprint(i)), &got[i]))
		}
		m.mu.Unlock()
		synctest.Wait()
		for i, want := range []string{"granted <nil>", "missing <nil>", "other token <nil>", "failed OOM command not allowed"} {
			a := got[i].get()
			if len(a) != 1 || fmt.Sprint(a[0].Outcome, " ", a[0].Err) != want {
				t.Errorf("member %d was answered %v, want %s", i, a, want)
			}
		}
	})
}

func TestFlushedScriptsAreLoadedOnceForABatch(t *testing.T) {
	flushed := false
	handle := func(conn int, cmd []string) string {
		switch {
		case cmd[0] == "SCRIPT":
			flushed = false
		case cmd[0] == "EVALSHA" && flushed:
			return "-NOSCRIPT No matching script.\r\n"
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		got := make([]answers, 3)
		flushed = true
		before := len(server.Seen("SCRIPT LOAD"))
		m.mu.Lock()
		for i := range got {
			m.outbox.push(newItem(wire.Renew, claimOf(fmt.Sprint(i)), &got[i]))
		}
		m.mu.Unlock()
		synctest.Wait()
		if loads := len(server.Seen("SCRIPT LOAD")) - before; loads != 1 {
			t.Errorf("the script was loaded %d times, want once", loads)
		}
		// As a rule there are two: the writer may wake before all members are queued again.
		if calls := server.Seen("EVALSHA"); len(calls) < 2 || len(calls) > 1+len(got) {
			t.Errorf("%d script calls, want the one that failed and at most one more for each member", len(calls))
		}
		for i := range got {
			if a := got[i].get(); len(a) != 1 || a[0].Err != nil || a[0].Outcome != wire.Granted {
				t.Errorf("member %d was answered %v", i, a)
			}
		}
	})
}

// The commands of a batch that failed are sent again one by one, but not a command whose release has been
// answered: nobody would ever delete the key again.
func TestNothingThatSetsAKeyIsSentAgainBehindItsRelease(t *testing.T) {
	for _, kind := range []wire.Kind{wire.Set, wire.Again, wire.Heal} {
		for _, answer := range []string{"-ERR a member\r\n", "-NOSCRIPT no such script\r\n"} {
			var failed atomic.Bool
			handle := func(conn int, cmd []string) string {
				if cmd[0] == "EVALSHA" && !failed.Swap(true) {
					time.Sleep(200 * time.Millisecond)
					return answer
				}
				return ok(conn, cmd)
			}
			run(t, handle, func(t *testing.T, m *Master, server *fake) {
				fence := wire.Proposal{Number: 1}
				one, other := claimWith("a", wire.ClaimOf{Fence: fence}), claimWith("b", wire.ClaimOf{Fence: fence})
				var told answers
				m.mu.Lock() // so that they share a batch
				for _, it := range []item{newItem(kind, one, &told), newItem(kind, other, nil)} {
					it.claim.at[0].admit()
					m.outbox.push(it)
				}
				m.mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				m.Ask(wire.Undo, one, nil) // nobody waits any more
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if all := told.get(); len(all) != 1 || all[0].Err == nil {
					t.Errorf("%v, %q: the asker is told %+v, want the error", kind, answer, all)
				}
				last := ""
				for _, command := range server.Seen("token of a") {
					last = command
				}
				if !strings.Contains(last, "undo") {
					t.Errorf("%v, %q: the last of it is %q, want the release", kind, answer, last)
				}
				if n := len(server.Seen("token of b")); n != 2 {
					t.Errorf("%v, %q: the other was sent %d times, want it to be sent again", kind, answer, n)
				}
			})
		}
	}
}

// The first command of the batch must not be sent again. The others are, and need the script.
func TestAFlushedScriptIsLoadedForTheRestOfABatch(t *testing.T) {
	flushed := false
	handle := func(conn int, cmd []string) string {
		switch {
		case cmd[0] == "SCRIPT":
			flushed = false
		case cmd[0] == "EVALSHA" && flushed:
			time.Sleep(100 * time.Millisecond)
			return "-NOSCRIPT No matching script.\r\n"
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		undone, reloaded, other := claimOf("a"), claimOf("b"), claimOf("c")
		var first, second, third answers
		flushed = true
		m.mu.Lock() // so that they share a batch
		undone.at[0].admit()
		m.outbox.push(newItem(wire.Again, undone, &first))
		again := newItem(wire.Renew, reloaded, &second)
		again.reloaded = true // it was in a batch that was sent again
		m.outbox.push(again)
		m.outbox.push(newItem(wire.Renew, other, &third))
		m.mu.Unlock()
		time.Sleep(50 * time.Millisecond)
		m.Ask(wire.Undo, undone, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if a := first.get(); len(a) != 1 || a[0].Err == nil {
			t.Errorf("the one that was undone was answered %v, want an error", a)
		}
		for name, got := range map[string]*answers{"sent again": &second, "other": &third} {
			if a := got.get(); len(a) != 1 || a[0].Err != nil || a[0].Outcome != wire.Granted {
				t.Errorf("%s: answered %v, want 1", name, a)
			}
		}
	})
}

// Another client has loaded the script again before the release is executed, so only the renewal is answered by an error.
func TestARenewalThatFoundNoScriptDoesNotFollowItsRelease(t *testing.T) {
	calls := 0
	handle := func(conn int, cmd []string) string {
		if cmd[0] != "EVALSHA" {
			return ok(conn, cmd)
		}
		if calls++; calls == 1 {
			time.Sleep(100 * time.Millisecond)
			return "-NOSCRIPT No matching script.\r\n"
		}
		return ok(conn, cmd)
	}
	for _, renews := range []func(*SentClaim) wire.Request{
		func(*SentClaim) wire.Request { return wire.Renew },
		func(c *SentClaim) wire.Request { return c.Committing(5) },
	} {
		calls = 0
		run(t, handle, func(t *testing.T, m *Master, server *fake) {
			claim := claimOf("a")
			claim.at[0].admit()
			var renewed, released answers
			m.Ask(renews(claim), claim, &renewed)
			time.Sleep(50 * time.Millisecond)
			m.Ask(wire.Release, claim, &released)
			time.Sleep(time.Second)
			synctest.Wait()
			if a := renewed.get(); len(a) != 1 || a[0].Err == nil {
				t.Errorf("the renewal was answered %v, want the error", a)
			}
			if a := released.get(); len(a) != 1 || a[0].Err != nil {
				t.Errorf("the release was answered %v, want no error", a)
			}
			if n := len(server.Seen("EVALSHA")); n != 2 {
				t.Errorf("the script was called %d times, want once for the renewal and once for the release", n)
			}
		})
	}
}

// If a script cannot be loaded, each call tries to load it once, not again and again.
func TestAServerThatNeverKnowsTheScriptIsNotFlooded(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		if cmd[0] == "EVALSHA" {
			return "-NOSCRIPT No matching script.\r\n"
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		var got answers
		m.Ask(wire.Renew, claimOf("a"), &got)
		time.Sleep(time.Second)
		if a := got.get(); len(a) != 1 || a[0].Err == nil {
			t.Errorf("answered %v, want the error", a)
		}
		if n := len(server.Seen("SCRIPT LOAD")); n > 4 {
			t.Errorf("the script was loaded %d times, want a few", n)
		}
	})
}
