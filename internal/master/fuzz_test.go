package master

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/fakeserver"
	"github.com/redlock-go/redlock/internal/wire"
)

// A hostile server is a healthy one that takes some of its replies from a list.
type hostile struct {
	*memory
	lies   *fakeserver.Lies
	pushes string // what follows the reply to SUBSCRIBE
}

func newHostile(healthy int, list, pushes []byte) *hostile {
	h := &hostile{memory: newMemory(1), lies: fakeserver.NewLies(healthy, list), pushes: string(pushes)}
	h.Handle = h.answer
	return h
}

func (h *hostile) answer(conn int, cmd []string) string {
	if cmd[0] == "SUBSCRIBE" {
		return "*3\r\n" + fakeserver.Bulk("subscribe") + fakeserver.Bulk(cmd[1]) + ":1\r\n" + h.pushes
	}
	reply := h.lies.Replace(h.memory.answer(conn, cmd))
	if reply == stall {
		return hangUp // a server that stalls for an hour takes a test of seconds too long
	}
	return reply
}

// A reckoning checks the answers to one command.
type reckoning struct {
	t    *testing.T
	kind wire.Kind

	mu sync.Mutex // guards what follows
	n  int
}

// Answered implements Asker.
func (r *reckoning) Answered(_ int, a wire.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n++; r.n > 1 {
		r.t.Errorf("%v was answered %d times", r.kind, r.n)
	}
	if (a.Outcome == wire.Failed) != (a.Err != nil) {
		r.t.Errorf("%v was answered %+v, want an error or an outcome", r.kind, a)
	}
	if a.Left != wire.Unknown && (a.Left < 0 || a.Left > 100*365*24*time.Hour) {
		r.t.Errorf("%v was answered that the key lives for %v", r.kind, a.Left)
	}
	if a.Holds < 0 || a.Holds > 10*365*24*time.Hour || len(a.Standing) > 32 {
		r.t.Errorf("%v was answered %+v", r.kind, a)
	}
	if a.Err != nil && strings.ContainsFunc(a.Err.Error(), unicode.IsControl) {
		r.t.Errorf("%v was answered the error %q, want one printable line", r.kind, a.Err)
	}
}

// times returns how often the command was answered.
func (r *reckoning) times() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// FuzzHostileServer runs a Master on a server with wrong replies. Each command must be answered exactly once.
// After the server has become healthy, the Master must work, too.
func FuzzHostileServer(f *testing.F) {
	for _, list := range []string{
		"", "-ERR no\r\n", "-NOSCRIPT no\r\n\x00-NOSCRIPT no\r\n", "-READONLY no\r\n", ":7\r\n", "*0\r\n", "*-1\r\n", "$-1\r\n",
		"*1\r\n*1\r\n*1\r\n:1\r\n", "close", "silence\x00silence", ":-9000000000000000000\r\n", "*2\r\n:1\r\n:9007199254740993\r\n",
		"*2\r\n:-9223372036854775808\r\n:-9223372036854775808\r\n", "$5\r\n- 1 -\r\n", "+\x1b[31mOK\r\n", "-\x1b[31mERR\r\n",
		"*4\r\n:1\r\n:0\r\n$0\r\n\r\n:1\r\n", "*4\r\n:-9223372036854775808\r\n:0\r\n$1\r\n\x1b\r\n:0\r\n", "*4\r\n:9223372036854775807\r\n:0\r\n$0\r\n\r\n:1\r\n",
		"$16\r\nrun_id:1\r\nrole:s\r\n", "*1000000000000000000\r\n", "\r\n", "+OK", ":1\r\n:1\r\n:1\r\n", "\x00\x00\x00\x00:1\r\n", "+QUEUED\r\n",
	} {
		for _, healthy := range []uint8{0, 3, 9, 17} {
			f.Add([]byte(list), []byte("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$3\r\nt a\r\n"), healthy, true)
			f.Add([]byte(list), []byte("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$13\r\n+ T run 5 0 k\r\n*2\r\n$4\r\npong\r\n$1\r\n7\r\n"), healthy, true)
		}
		f.Add([]byte(list), []byte(list), uint8(2), false)
	}
	f.Fuzz(func(t *testing.T, list, pushes []byte, healthy uint8, guarded bool) {
		bubbletest.Test(t, func(t *testing.T) {
			h := newHostile(int(healthy%64), list, pushes)
			cfg := Config{
				Pool: h.Pool(), Servers: alone(0), ID: "id",
				NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
				Listener: client{every: 100 * time.Millisecond, g: time.Second, freed: func(key, token string) {
					if key == "" || token == "" {
						t.Errorf("told that %q was left free by %q", key, token)
					}
				}, granted: func(_ int, g Grant) {
					if g.Key == "" || g.Token == "" || g.Fence < 0 {
						t.Errorf("granted %+v", g)
					}
				}},
			}
			if guarded {
				cfg.Servers = alone(time.Second)
			}
			askAll(t, Start(cfg), h)
		})
	})
}

const patience = 12 * time.Second

// askAll asks a Master for everything while its server is hostile, and for a vote afterwards.
func askAll(t *testing.T, m *Master, h *hostile) {
	defer func() {
		m.Close()
		<-m.Done()
	}()
	asked := make(map[*reckoning]bool)
	for i := range 3 {
		fence := time.Now().UnixMicro() / 250
		plain := claimOf(fmt.Sprint("plain", i))
		fenced := claimWith(fmt.Sprint("fenced", i), wire.ClaimOf{Fence: wire.Proposal{Number: fence}})
		queued := claimWith(fmt.Sprint("queued", i), wire.ClaimOf{Grant: time.Second, RegisterTTL: time.Second})
		for k := wire.Set; k <= wire.Ping; k++ {
			for _, claim := range []*SentClaim{plain, fenced, queued} {
				request := wire.Request(k)
				switch {
				case k == wire.Commit:
					request = claim.Committing(fence)
				case k == wire.Heal && claim == fenced:
					request = claim.Healing(fence)
				}
				r := &reckoning{t: t, kind: k}
				asked[r] = m.Ask(request, claim, r) == nil
			}
		}
		time.Sleep(400 * time.Millisecond)
	}
	// Longer than every time-out, and than a quarantine that began with a strange inspection.
	time.Sleep(patience)
	for r, taken := range asked {
		if n, want := r.times(), map[bool]int{true: 1, false: 0}[taken]; n != want {
			t.Errorf("%v was answered %d times, want %d", r.kind, n, want)
		}
	}
	h.lies.End()
	time.Sleep(patience)
	if m.cfg.Servers.MaxTTL() > time.Second {
		return // the record of the hostile server makes its quarantine longer
	}
	if got := vote(t, m); !got.Done() {
		s := m.Status()
		t.Errorf("a SET was answered %+v when the server had been healthy for %v; the master is %v: %v", got, patience, s.State, s.Err)
	}
}
