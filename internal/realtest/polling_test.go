package realtest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// New users of Redis 7 have no right to channels. A client of such a user takes turns with a client in a loop that is told of grants,
// and both go on when the right is given and taken away.
func TestAUserWithoutTheRightToSubscribeTakesTurns(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	deaf := openAs(t, servers, "+@all", "~*", "resetchannels")
	// denied waits until WakeErr says whether the subscription is denied.
	denied := func(want bool) {
		eventually(t, "WakeErr says what the user may do", func() bool {
			for _, m := range deaf.Masters() {
				if got := m.WakeErr != nil && strings.Contains(m.WakeErr.Error(), "NOPERM"); m.State != redlock.MasterUp || got != want {
					return false
				}
			}
			return true
		})
	}
	setChannels := func(rule string, servers ...*redisserver.Server) {
		for _, s := range servers {
			do(t, s, "ACL", "SETUSER", "shop", rule)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	defer loop.Wait()
	defer cancel()
	loop.Go(func() { // it holds the lock for long, so that an attempt seldom finds it free
		for l := openReal(t, servers, nil).Locker("a"); l.LockContext(ctx) == nil; l.Unlock() {
			time.Sleep(30 * time.Millisecond)
		}
	})
	turns := func(what string) {
		for turn := range 3 {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			l := deaf.Locker("a")
			if err := l.LockContext(ctx); err != nil {
				t.Fatalf("%s, turn %d: LockContext = %v", what, turn, err)
			}
			cancel()
			l.Unlock()
		}
	}
	denied(true)
	turns("no right to subscribe")
	setChannels("allchannels", servers...)
	denied(false)
	turns("with the right")
	setChannels("resetchannels", servers...) // ends the subscriptions
	denied(true)
	turns("the right was taken away")
	setChannels("allchannels", servers[0])
	turns("the right at one master")
}
