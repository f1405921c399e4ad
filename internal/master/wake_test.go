package master

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/fakeserver"
)

// A subscription with any other answer is not confirmed: nobody could wake the Client.
func TestASubscriptionCountsOnlyIfTheServerConfirmsIt(t *testing.T) {
	const confirmed = "*3\r\n$9\r\nsubscribe\r\n$15\r\nredlock:wake:me\r\n:1\r\n"
	for _, row := range []struct {
		reply string
		err   string // in WakeErr; "" for none
	}{
		{confirmed, ""},
		{"+OK\r\n", "SUBSCRIBE: unexpected reply to a subscription"},
		{":1\r\n", "SUBSCRIBE: unexpected reply to a subscription"},
		{"$-1\r\n", "SUBSCRIBE: unexpected reply to a subscription"},
		{"$9\r\nsubscribe\r\n", "SUBSCRIBE: unexpected reply to a subscription"},
		{"*0\r\n", "SUBSCRIBE: unexpected reply to a subscription"},
		{"*1\r\n:1\r\n", "SUBSCRIBE: unexpected reply to a subscription"},
		{"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$3\r\nt k\r\n", "SUBSCRIBE: unexpected reply to a subscription"},
		{"-NOPERM no\r\n", "SUBSCRIBE: NOPERM no"},
		{confirmed + "+OK\r\n", "unexpected reply to a subscription"},
		{confirmed + "*1\r\n*1\r\n$7\r\nmessage\r\n", "unexpected reply to a subscription"},
		{confirmed + "*3\r\n$11\r\nunsubscribe\r\n$15\r\nredlock:wake:me\r\n:0\r\n", "the server has ended the subscription"},
		{confirmed + "-ERR \x1b[2J\r\n", "connection lost: ERR ?[2J"},
		{confirmed + "*3\r\n$7\r\nmessage\r\n*0\r\n:1\r\n*1\r\n$7\r\nmessage\r\n*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n:5\r\n", ""},
	} {
		bubbletest.Test(t, func(t *testing.T) {
			var listener atomic.Int64
			server := &fake{Handle: func(conn int, cmd []string) string {
				switch {
				case cmd[0] == "SUBSCRIBE":
					listener.Store(int64(conn))
					return row.reply
				case cmd[0] == "UNSUBSCRIBE":
					return hangUp
				case cmd[0] == "PING" && int64(conn) == listener.Load():
					return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
				}
				return ok(conn, cmd)
			}}
			m := Start(Config{
				Pool: server.Pool(), ID: "me", Servers: alone(0),
				NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
				Listener: client{every: time.Second, freed: func(string, string) { t.Errorf("%q says that a lock was left free", row.reply) }},
			})
			time.Sleep(10*time.Second + time.Millisecond)
			synctest.Wait()
			err := m.Status().WakeErr
			if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("%q: WakeErr = %v, want %q", row.reply, err, row.err)
			}
			if row.err == "" && !m.Listening() || strings.HasPrefix(row.err, "SUBSCRIBE") && m.Listening() {
				t.Errorf("%q: Listening() = %t", row.reply, m.Listening())
			}
			if m.Status().State != Up {
				t.Errorf("%q: the master is %v, want it up without wake-ups", row.reply, m.Status().State)
			}
			m.Close()
			<-m.Done()
			time.Sleep(2 * time.Hour)
		})
	}
}

// A master that was restarted may have lost the release, and has the claim in its queue.
func TestAReleasedClaimThatAMasterCallsNearIsReleasedThereAgain(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		message := func(token string) string {
			return "*3\r\n" + fakeserver.Bulk("message") + fakeserver.Bulk("c") + fakeserver.Bulk("= "+token+" k")
		}
		server := &fake{Handle: func(conn int, cmd []string) string {
			switch {
			case cmd[0] == "SUBSCRIBE":
				return "*3\r\n" + fakeserver.Bulk("subscribe") + fakeserver.Bulk(cmd[1]) + ":1\r\n" + message("live") + message("released")
			case cmd[0] == "UNSUBSCRIBE":
				return hangUp
			case cmd[0] == "PING" && len(cmd) == 2:
				return "*2\r\n" + fakeserver.Bulk("pong") + fakeserver.Bulk(cmd[1])
			}
			return ok(conn, cmd)
		}}
		claims := map[string]*SentClaim{"released": claimBy("token-42", "k")}
		m := Start(Config{
			Pool: server.Pool(), ID: "me", Servers: alone(0),
			NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
			Listener: client{every: time.Second, near: func(token string) *SentClaim { return claims[token] }},
		})
		time.Sleep(10 * time.Second)
		// Each subscription has one such message. One that has just begun may not have been read yet.
		if sent, told := server.Seen("token-42"), len(server.Seen("SUBSCRIBE redlock:wake")); len(sent) == 0 || len(sent) > told || !strings.Contains(sent[0], "release") {
			t.Errorf("%.200q was sent for the claim, want its release %d times at most, and once at least", sent, told)
		}
		if n := m.Status().WakesDropped; n != 0 {
			t.Errorf("%d messages were dropped", n)
		}
		m.Close()
		<-m.Done()
		time.Sleep(2 * time.Hour)
	})
}

func TestWorkingWakeUpsAreReportedOnceTheSubscriptionHasLasted(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		const confirmed = "*3\r\n$9\r\nsubscribe\r\n$15\r\nredlock:wake:me\r\n:1\r\n"
		var listener atomic.Int64
		var allowed atomic.Bool
		server := &fake{Handle: func(conn int, cmd []string) string {
			switch {
			case cmd[0] == "SUBSCRIBE" && !allowed.Load():
				return "-NOPERM no\r\n"
			case cmd[0] == "SUBSCRIBE":
				listener.Store(int64(conn))
				return confirmed
			case cmd[0] == "UNSUBSCRIBE":
				return hangUp
			case cmd[0] == "PING" && int64(conn) == listener.Load():
				return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
			}
			return ok(conn, cmd)
		}}
		var mu sync.Mutex
		var told []string
		m := Start(Config{
			Pool: server.Pool(), ID: "me", Servers: alone(0),
			NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
			Listener: client{every: time.Second, changed: func(now Status) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, fmt.Sprint(now.State, " ", now.WakeErr))
			}},
		})
		time.Sleep(10*time.Second + time.Millisecond)
		allowed.Store(true)
		time.Sleep(1900 * time.Millisecond) // it subscribed after one second, and has not lasted another second
		if m.Status().WakeErr == nil || !m.Listening() {
			t.Errorf("WakeErr = %v, Listening() = %t when a subscription has just been made", m.Status().WakeErr, m.Listening())
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if err := m.Status().WakeErr; err != nil {
			t.Errorf("WakeErr = %v when the subscription has stood for a second", err)
		}
		mu.Lock()
		if want := []string{"up <nil>", "up SUBSCRIBE: NOPERM no (redlock doctor --acl prints the rights that clients need)", "up <nil>"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		mu.Unlock()
		m.Close()
		<-m.Done()
		time.Sleep(2 * time.Hour)
	})
}

// A calm client pings its subscription seldom. Whenever it ceases to be calm, the subscription stands; if the server is silent, it ends.
func TestACalmClientPingsItsSubscriptionSeldom(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var listener, subscriptions, pings atomic.Int64
		var calm, mute atomic.Bool
		server := &fake{Handle: func(conn int, cmd []string) string {
			switch {
			case cmd[0] == "SUBSCRIBE":
				listener.Store(int64(conn))
				subscriptions.Add(1)
				return "*3\r\n$9\r\nsubscribe\r\n$15\r\nredlock:wake:me\r\n:1\r\n"
			case cmd[0] == "UNSUBSCRIBE":
				return hangUp
			case cmd[0] == "PING" && int64(conn) == listener.Load():
				pings.Add(1)
				if mute.Load() {
					return silence
				}
				return fmt.Sprintf("*2\r\n$4\r\npong\r\n$%d\r\n%s\r\n", len(cmd[1]), cmd[1])
			}
			return ok(conn, cmd)
		}}
		m := Start(Config{
			Pool: server.Pool(), ID: "me", Servers: alone(0),
			NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
			Listener: client{every: time.Second, calm: calm.Load},
		})
		in := func(d time.Duration) int64 {
			before := pings.Load()
			time.Sleep(d)
			return pings.Load() - before
		}
		in(5 * time.Second)
		first := subscriptions.Load() // the connection for commands may come later
		if n := in(20 * time.Second); n < 19 || n > 21 {
			t.Errorf("%d pings in 20 s, want one a second", n)
		}
		calm.Store(true)
		in(5 * time.Second)
		if n := in(100 * time.Second); n < 3 || n > 5 {
			t.Errorf("%d pings in 100 s while the client is calm, want one in 25 seconds", n)
		}
		for i := range 100 { // at all times between two pings
			calm.Store(i%2 == 0)
			in(time.Duration(300+37*i) * time.Millisecond)
		}
		calm.Store(false)
		in(30 * time.Second)
		if n := in(20 * time.Second); n < 19 || n > 21 {
			t.Errorf("%d pings in 20 s after the client was calm, want one a second", n)
		}
		if n := subscriptions.Load() - first; n != 0 {
			t.Errorf("the subscription has ended %d times, want that it stands", n)
		}
		calm.Store(true)
		in(5 * time.Second)
		mute.Store(true)
		began := time.Now()
		for subscriptions.Load() == first && time.Since(began) < time.Minute {
			in(10 * time.Millisecond)
		}
		if took := time.Since(began); took < time.Second || took > 29*time.Second {
			t.Errorf("a silent server was found after %v, want 27 DialTimeouts and what it takes to connect", took)
		}
		mute.Store(false)
		m.Close()
		<-m.Done()
		time.Sleep(2 * time.Hour)
	})
}

// A receiver waits for longer than Close does, unless it cannot be interrupted.
func TestASubscriptionEndsWithItsMasterThoughTheServerIsSilent(t *testing.T) {
	for _, calm := range []bool{false, true} {
		for _, wrapped := range []bool{false, true} {
			t.Run(fmt.Sprintf("calm: %v, wrapped: %v", calm, wrapped), func(t *testing.T) {
				bubbletest.Test(t, func(t *testing.T) { endsThoughTheServerIsSilent(t, calm, wrapped) })
			})
		}
	}
}

// A timed connection supports time-outs, and no contexts.
type timed struct{ redis.ConnWithTimeout }

func endsThoughTheServerIsSilent(t *testing.T, calm, wrapped bool) {
	var mute atomic.Bool
	server := &fake{Handle: func(conn int, cmd []string) string {
		switch {
		case cmd[0] == "SUBSCRIBE":
			return "*3\r\n$9\r\nsubscribe\r\n$15\r\nredlock:wake:me\r\n:1\r\n"
		case mute.Load():
			return silence
		case cmd[0] == "PING" && len(cmd) == 2:
			return fmt.Sprintf("*2\r\n$4\r\npong\r\n$%d\r\n%s\r\n", len(cmd[1]), cmd[1])
		}
		return ok(conn, cmd)
	}}
	pool := server.Pool()
	if wrapped {
		dial := pool.DialContext
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
			conn, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			return timed{conn.(redis.ConnWithTimeout)}, nil
		}
	}
	m := Start(Config{
		Pool: pool, ID: "me", Servers: alone(0),
		NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
		Listener: client{every: time.Second, calm: func() bool { return calm }},
	})
	time.Sleep(10*time.Second + 10*time.Millisecond)
	mute.Store(true)
	began := time.Now()
	m.Close()
	<-m.Done()
	if took := time.Since(began); took > time.Second {
		t.Errorf("it ended after %v, want DialTimeout", took)
	}
}

// However short DialTimeout is.
func TestASubscriptionIsPingedOnceAMillisecondAtMost(t *testing.T) {
	for _, hasty := range []bool{false, true} {
		l := subscriber{Master: &Master{cfg: Config{DialTimeout: 1}}}
		if every := l.seldom(&subscription{hasty: hasty}); every < time.Millisecond {
			t.Errorf("hasty: %v: pinged every %v", hasty, every)
		}
	}
}
