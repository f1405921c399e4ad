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

// claimOf returns a claim with this token on the key "a", and with a g of 400 ms.
func claimOf(in *Inbox, token string) *Claim {
	terms := wire.NewTerms("a", time.Second)
	return in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: token}), clock.System(), 400*time.Millisecond, 0, 0)
}

// permitsOf returns a claim with this token on n slots of the semaphore "a", which has a limit, and with a g of a minute.
func permitsOf(in *Inbox, token string, began clock.Reading, n, limit int) *Claim {
	terms := wire.NewSlotTerms("a", limit, n, time.Minute)
	return in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: token}), began, time.Minute, n, limit)
}

// refuse has master i answer a poll that was sent at a time: so many are ahead of the claim.
func refuse(c *Claim, i, ahead int, sent clock.Reading) {
	c.Answered(i, Command{Kind: wire.Again, Mark: sent}, wire.Answer{Outcome: wire.Taken, Ahead: ahead}, true)
}

func noDrift(time.Duration) time.Duration { return 0 }

func tenMillis(time.Duration) time.Duration { return 10 * time.Millisecond }

// mastersWhere returns the masters, as bits, of which is reports true.
func mastersWhere(c *Claim, is func(*atMaster) bool) (masters uint64) {
	for i := range c.at {
		if is(&c.at[i]) {
			masters |= 1 << i
		}
	}
	return masters
}

var errTest = redisError("down")

type redisError string

func (e redisError) Error() string { return string(e) }

// granted returns the vote of a master that has granted a command.
func granted() quorum.Vote { return quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Granted}} }

// refused returns the vote of a master where another token stands.
func refused(left time.Duration, standing string) quorum.Vote {
	return quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Taken, Left: left, Standing: standing}}
}

// failed returns the vote of a master that has not said whose the key is.
func failed(left time.Duration, standing string) quorum.Vote {
	return quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Missing, Left: left, Standing: standing}}
}

type every time.Duration

func (e every) NextBackOff() time.Duration { return time.Duration(e) }

// A listener is a Waits with what else a Listener needs.
type listener struct{ *Waits }

func (listener) Redial() master.Schedule             { return every(100 * time.Millisecond) }
func (listener) Changed(int, master.Status)          {}
func (listener) Recalled(int, string, string) bool   { return false }
func (listener) Patience() (near, far time.Duration) { return 0, 0 }
func (listener) Raising(before, now time.Duration)   {}

func (l listener) Up(i int) { l.Waits.Up(i) }

func (l listener) Near(i int, key, token string) (released *master.SentClaim, expected bool) {
	released, _, expected = l.Waits.Near(i, key, token)
	return released, expected
}

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
