package waits

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fakeserver"
	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

type every time.Duration

func (e every) NextBackOff() time.Duration { return time.Duration(e) }

// A listener is a Waits with what else a Listener needs.
type listener struct{ *Waits }

func (listener) Redial() master.Schedule             { return every(100 * time.Millisecond) }
func (listener) Changed(int, master.Status)          {}
func (listener) Recalled(int, string, string) bool   { return false }
func (listener) Patience() (near, far time.Duration) { return 0, 0 }
func (listener) Raising(before, now time.Duration)   {}

// listening runs f in a bubble with a group of three masters that can wake this client.
func listening(t *testing.T, f func(t *testing.T, group *quorum.Group)) {
	t.Helper()
	handle := func(_ int, cmd []string) string {
		switch cmd[0] {
		case "SUBSCRIBE":
			return "*3\r\n" + fakeserver.Bulk("subscribe") + fakeserver.Bulk(cmd[1]) + ":1\r\n"
		case "PING":
			if len(cmd) > 1 { // of the subscription
				return "*2\r\n" + fakeserver.Bulk("pong") + fakeserver.Bulk(cmd[1])
			}
			return "+PONG\r\n"
		case "SCRIPT":
			return fakeserver.Bulk("abc")
		case "CLIENT":
			return ":1\r\n"
		}
		return "-ERR unknown command\r\n"
	}
	bubbletest.Test(t, func(t *testing.T) {
		servers := guard.NewServers(guard.Settings{Names: []string{"a", "b", "c"}, Off: true})
		var masters []*master.Master
		for i := range 3 {
			masters = append(masters, master.Start(master.Config{
				Pool:        (&fakeserver.Server{Handle: handle}).Pool(),
				Index:       i,
				ID:          "me",
				Servers:     servers,
				NodeTimeout: 50 * time.Millisecond,
				DialTimeout: time.Second,
				Listener:    listener{New(3, noDrift)},
			}))
		}
		synctest.Wait()
		defer func() {
			for _, m := range masters {
				m.Close()
			}
			for _, m := range masters {
				<-m.Done()
			}
		}()
		group := quorum.NewGroup(masters)
		for i := 0; !group.Listening(); i++ { // a subscription follows its connection some time later
			if i == 60_000 {
				t.Fatal("the masters cannot wake this client")
			}
			time.Sleep(time.Millisecond)
		}
		f(t, group)
	})
}

// A claim that is far is told when it becomes near. So it polls seldom.
func TestAFarClaimPollsSeldom(t *testing.T) {
	const ms = time.Millisecond
	terms := wire.NewSlotTerms("a", 8, 1, time.Minute)
	as := func(d time.Duration) time.Duration { return d }
	listening(t, func(t *testing.T, group *quorum.Group) {
		for _, row := range []struct {
			name     string
			slots    bool // eight claims are near
			ahead    int
			first    bool
			want     time.Duration // on average
			far, one bool
		}{
			{"the head", false, 0, false, 0, false, false},
			{"first, and it may be near soon", false, 30, true, 200 * ms, true, false},
			{"first", false, 76, true, 1000 * ms, true, false},
			{"then", false, 30, false, 2000 * ms, true, true},
			{"then, with fewer ahead", false, 3, false, 300 * ms, true, true},
			{"on slots, among the first three", true, 2, false, 0, false, false},
			{"on slots, near and first", true, 7, true, 500 * ms, true, false},
			{"on slots, near", true, 7, false, 500 * ms, true, false},
			{"on slots, nearer", true, 4, false, 400 * ms, true, false},
			{"on slots, far and first", true, 76, true, 1000 * ms, true, false},
			{"on slots, first, and it may be near soon", true, 8, true, 200 * ms, true, false},
			{"on slots, far", true, 8, false, 800 * ms, true, false},
			{"on slots, farther", true, 400, false, 10_000 * ms, true, false},
		} {
			at := clock.System()
			in := New(3, noDrift).Begin("a")
			c := claimOf(in, "mine")
			if row.slots {
				c = in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "T"}), at, time.Minute, 1, 8)
			}
			in.SetClaim(c)
			for i := range 3 {
				c.Answered(i, Command{Kind: wire.Again, Mark: at, Life: time.Minute}, wire.Answer{Outcome: wire.Taken, Ahead: row.ahead}, true)
			}
			least, most := row.want*3/4, row.want*5/4
			if row.want == 0 {
				least, most = Step/2, Step*3/2
			}
			for range 20 { // a part of it is random
				p := NewPace(group, Step)
				p.One = !row.one
				p.Pause(c, at, row.first, as)
				if d := p.poll.Sub(at.Time()); d < least || d > most || p.Far != row.far || p.One != row.one {
					t.Errorf("%s, with %d ahead: it polls after %v, far %t, one %t; want %v to %v, %t, %t", row.name, row.ahead, d, p.Far, p.One, least, most, row.far, row.one)
				}
			}
		}
	})
}
