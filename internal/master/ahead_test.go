package master

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/wire"
)

// A grant that cannot be used has set the key, so its release is owed.
func TestAGrantThatIsTooFarAheadIsReleased(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		if cmd[0] == "EVALSHA" && conn == 1 {
			if strings.HasPrefix(cmd[5], "acquire") {
				return "*2\r\n:1\r\n:100000\r\n"
			}
			return hangUp
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		c := claimWith("a", wire.ClaimOf{Fence: wire.Proposal{Number: 1000, Now: 1000, Most: 5000}})
		var got answers
		m.Ask(wire.Set, c, &got)
		synctest.Wait()
		if a := got.get(); len(a) != 1 || a[0].Err == nil {
			t.Fatalf("answered %v, want an error", a)
		}
		m.Ask(wire.Undo, c, nil)
		time.Sleep(time.Second)
		if got := server.Seen("2: EVALSHA"); len(got) == 0 || !strings.Contains(got[0], "undo token of a") {
			t.Errorf("on the second connection: %q, want the release that was owed", got)
		}
	})
}
