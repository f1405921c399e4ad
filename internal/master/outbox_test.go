package master

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/wire"
)

func TestAReleaseThatIsAnsweredByAnErrorIsSentAgain(t *testing.T) {
	var failed atomic.Bool
	handle := func(conn int, cmd []string) string {
		if cmd[0] == "EVALSHA" && !failed.Swap(true) {
			return "-OOM command not allowed\r\n"
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		c := claimOf("a")
		m.Ask(wire.Set, c, nil)
		m.Ask(wire.Release, c, nil)
		time.Sleep(10 * time.Second)
		if got := server.Seen("EVALSHA"); len(got) != 2 {
			t.Errorf("the release was sent %d times, want twice: %q", len(got), got)
		}
	})
}

// An ACL may deny the user the key. There may be ten thousand claims on it.
func TestNoReleaseIsOwedToAServerThatDeniesTheRegistrationAndTheRelease(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		if cmd[0] == "EVALSHA" {
			return "-NOPERM this user has no permissions to access one of the keys\r\n"
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		for range 10 {
			c := claimWith("a", wire.ClaimOf{Grant: time.Second, RegisterTTL: time.Second})
			m.Ask(wire.Register, c, nil)
			synctest.Wait()
			m.Ask(wire.Release, c, nil)
			synctest.Wait()
		}
		if got := len(server.Seen("EVALSHA")); got != 20 {
			t.Errorf("%d commands were sent, want 10 registrations and 10 releases", got)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if n := len(m.outbox.owed); n != 0 {
			t.Errorf("%d releases are owed, want none", n)
		}
	})
}

// The heal was refused because the SET before it was executed, although the answer was lost. So the token may be there.
func TestAReleaseIsOwedAfterALostSetAndARefusedHeal(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		switch {
		case conn == 1 && cmd[0] == "SET", conn == 2 && cmd[0] == "EVALSHA":
			return hangUp
		case cmd[0] == "SET":
			return "$-1\r\n"
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		c := claimOf("a")
		m.Ask(wire.Set, c, nil)
		time.Sleep(time.Second)
		m.Ask(wire.Heal, c, nil)
		time.Sleep(time.Second)
		m.Ask(wire.Release, c, nil)
		time.Sleep(time.Second)
		if got := server.Seen("3: EVALSHA"); len(got) != 1 || !strings.Contains(got[0], "release token of a") {
			t.Errorf("on the third connection %q, want the release", got)
		}
	})
}

func TestAcquisitionsAskedForWhileConnectingAreNotSentToAServerInQuarantine(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		v := newMemory(0)
		v.set("")
		pool, asked := v.Pool(), make(chan struct{})
		dial := pool.DialContext
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
			<-asked
			return dial(ctx)
		}
		m := Start(Config{
			Pool: pool, Servers: alone(minute), NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
			Listener: client{every: time.Second},
		})
		var got, released answers
		c := claimOf("a")
		if err := m.Ask(wire.Set, c, &got); err != nil {
			t.Fatal(err)
		}
		m.Ask(wire.Release, claimOf("b"), &released)
		close(asked)
		synctest.Wait()
		wantState(t, m, Quarantined, "")
		if all := got.get(); len(all) != 1 || !strings.Contains(fmt.Sprint(all[0].Err), "in quarantine") {
			t.Errorf("the SET was answered %v, want once that the master is in quarantine", all)
		}
		if sent := v.Seen("1: SET "); len(sent) != 0 {
			t.Errorf("%q was sent to a server in quarantine", sent)
		}
		if all := released.get(); len(all) != 1 || !all[0].Done() {
			t.Errorf("the release was answered %v, want it to be sent", all)
		}
		m.Close()
		<-m.Done()
	})
}

func TestTheCommandsOfOneFlushAreOneRoundTrip(t *testing.T) {
	m := &Master{}
	m.roundTrip.begin(time.Millisecond)
	at := time.Unix(0, 0)
	for range 100 {
		m.outbox.flight.Push(item{Command: wire.Command{Sent: at}})
	}
	for range 100 {
		m.popLocked(at.Add(time.Second))
	}
	if got := time.Duration(m.roundTrip.least.Load()); got > 2*time.Millisecond {
		t.Errorf("after one slow flush the distance is %v, want little more than 1ms", got)
	}
}
