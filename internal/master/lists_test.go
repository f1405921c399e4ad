package master

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/fakeserver"
	"github.com/redlock-go/redlock/internal/wire"
)

// census returns a server's reply to wire.ListCensus if clients have lists of these lengths.
func census(lists ...int) string {
	reply := "*128\r\n"
	for n := range wire.MastersMost {
		count := ":0\r\n"
		for _, list := range lists {
			if list == n+1 {
				count = ":7\r\n"
			}
		}
		reply += fakeserver.Bulk(wire.ListChannel(n+1)) + count
	}
	return reply
}

// A master that does not say how many masters other clients have, or answers nonsense, votes as any other, and is not asked again for
// ten minutes. A client that does not tell others how many masters it has does not ask.
func TestAMasterIsAskedForOtherListsTwiceAMinute(t *testing.T) {
	for _, row := range []struct {
		name, id, reply string
		asked           int64 // in a minute
		want            string
	}{
		{"no others", "me", census(1), 2, ""},
		{"others", "me", census(1, 3), 2, "other clients have another number of masters, 3, and this one has 1: "},
		{"many others", "me", census(2, 4, 64), 2, "other clients have another number of masters, 2 or 4 or 64, and this one has 1: "},
		{"forbidden", "me", "-NOPERM no\r\n", 1, ""},
		{"another type", "me", ":64\r\n", 1, ""},
		{"too few", "me", "*2\r\n$1\r\na\r\n:1\r\n", 1, ""},
		{"text in the place of a number", "me", strings.Replace(census(3), ":7", "+7", 1), 1, ""},
		{"no wake-ups", "", census(1, 3), 0, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				server := &fake{Handle: func(conn int, cmd []string) string {
					if cmd[0] == "PUBSUB" {
						asked.Add(1)
						return row.reply
					}
					return ok(conn, cmd)
				}}
				m := Start(Config{
					Pool: server.Pool(), ID: row.id, Servers: alone(0),
					NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
					Listener: client{every: time.Minute},
				})
				time.Sleep(59 * time.Second)
				synctest.Wait()
				s := m.Status()
				if asked := asked.Load(); asked != row.asked || s.State != Up {
					t.Errorf("asked %d times, want %d; the master is %v (%v)", asked, row.asked, s.State, s.Err)
				}
				if (s.ListErr == nil) != (row.want == "") || s.ListErr != nil && !strings.HasPrefix(s.ListErr.Error(), row.want) {
					t.Errorf("ListErr = %v, want %q", s.ListErr, row.want)
				}
				time.Sleep(10 * time.Minute)
				if asked, want := asked.Load(), map[int64]int64{0: 0, 1: 2, 2: 22}[row.asked]; asked != want {
					t.Errorf("asked %d times in 11 minutes, want %d", asked, want)
				}
				m.Close()
				<-m.Done()
				time.Sleep(2 * time.Hour)
			})
		})
	}
}
