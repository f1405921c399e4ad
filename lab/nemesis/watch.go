package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/history"
)

// A watch reads the lock keys on all masters after the faults. Then releases and undos are executed
// at once, so a key may exist only while somebody holds the lock or tries to get it, and for a
// short time after.
type watch struct {
	fleet fleet
	names []lockName
	key   func(string, int) string

	stop chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex // guards seen
	seen  []sighting
	asked int
}

// A sighting is a token that a master had for a name, from first to last.
type sighting struct {
	master      int
	name        string
	token       string
	reader      bool
	first, last int64
}

// watchEvery is the time between two reads.
const watchEvery = 20 * time.Millisecond

func newWatch(r *run) *watch {
	w := &watch{fleet: r.fleet, names: r.names(), key: r.subject.key, stop: make(chan struct{})}
	for i := range w.fleet {
		w.done.Go(func() { w.follow(i) })
	}
	return w
}

// standing is a script that returns the tokens that stand for each key: that of a writer, or those of readers that
// have not expired, with "reader " in front.
// For a semaphore it returns the tokens that stand in its slots.
var standing = redis.NewScript(-1, `
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
local all = {}
for i, key in ipairs(KEYS) do
  local held = ARGV[i] == '0' and redis.call('GET', key)
  if ARGV[i] ~= '0' then
    all[i] = {}
    for j, slot in ipairs(redis.call('ZRANGEBYSCORE', 'redlock:until:' .. key, '(' .. now, '+inf')) do
      all[i][j] = redis.call('HGET', 'redlock:slots:' .. key, slot) or 'nobody'
    end
  elseif held == 'redlock:readers' then
    all[i] = {}
    for j, member in ipairs(redis.call('ZRANGEBYSCORE', 'redlock:readers:' .. key, '(' .. now, '+inf')) do
      all[i][j] = 'reader ' .. string.match(member, '%S+$')
    end
  else
    all[i] = {held or nil}
  end
end
return all`)

// tokens returns the tokens that stand for each key.
func tokens(conn redis.Conn, names []lockName, keys []any) (all [][]string, err error) {
	args := append([]any{len(keys)}, keys...)
	for _, n := range names {
		args = append(args, n.Limit)
	}
	replies, err := redis.Values(standing.Do(conn, args...))
	for _, reply := range replies {
		of, err := redis.Strings(reply, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, of)
	}
	return all, err
}

// keysOf returns the keys of the names on one master.
func keysOf(names []lockName, key func(string, int) string, master int) (keys []any) {
	for _, n := range names {
		keys = append(keys, key(n.Name, master))
	}
	return keys
}

// follow reads the keys of one master until the watch ends.
func (w *watch) follow(i int) {
	conn, err := redis.Dial("tcp", w.fleet[i].Addr(), redis.DialReadTimeout(time.Second))
	if err != nil {
		return
	}
	defer conn.Close()
	keys := keysOf(w.names, w.key, i)
	stand := make(map[string]*sighting)
	for {
		at := history.Now()
		all, err := tokens(conn, w.names, keys)
		if err != nil {
			return
		}
		w.see(i, all, at, stand)
		select {
		case <-w.stop:
			w.see(i, nil, 0, stand)
			return
		case <-time.After(watchEvery):
		}
	}
}

// see notes what stands on a master, as asked for at a time. stand has what stood there before.
func (w *watch) see(master int, all [][]string, at int64, stand map[string]*sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	is := make(map[string]bool)
	for n, tokens := range all {
		for _, token := range tokens {
			id := w.names[n].Name + " " + token
			is[id] = true
			if stand[id] == nil {
				token, reader := strings.CutPrefix(token, "reader ")
				stand[id] = &sighting{master: master, name: w.names[n].Name, token: token, reader: reader, first: history.Now()}
			}
			stand[id].last = at // the time before the command
		}
	}
	for id, s := range stand {
		if !is[id] {
			w.seen = append(w.seen, *s)
			delete(stand, id)
		}
	}
}

// end ends the watch. It returns a violation for each token that stood for longer than may after its release, or
// without belonging to a lease. may must be below the TTL. A call for several names may acquire them one by one, each with a
// token of its own, which no lease has: the time for which such a call waits does not count. A read lease is kept after its release. It is renewed once
// more, within a third of the TTL, and then kept until half of its validity has passed. A lock that may be kept, whose token has a ~,
// stands for up to two thirds of the TTL.
func (w *watch) end(h *history.History, stalls *stalls, ttl, may time.Duration) (all []history.Violation) {
	close(w.stop)
	w.done.Wait()
	over := make(map[string]int64)           // when the last lease of a token ended
	waits := make(map[string][]history.Span) // of calls for several names, and of Do of a semaphore, whose token is not known, by name
	for _, o := range h.Snapshot() {
		if names := strings.Fields(o.Name); len(names) > 1 {
			for _, name := range names {
				waits[name] = append(waits[name], history.Span{From: o.Asked, To: max(o.Entered, o.Refused)})
			}
		}
		if o.Token == "" {
			if o.How == byDo && o.Left != 0 { // the slots of a client that has died have expired
				waits[o.Name] = append(waits[o.Name], history.Span{From: o.Entered, To: o.Left})
			}
			continue
		}
		if o.Left == 0 {
			o.Left = 1 << 62
		}
		over[o.Token] = max(over[o.Token], o.Left)
	}
	for _, s := range w.seen {
		since, what, may := s.first, "which nobody's lease had", may
		left, known := over[s.token]
		switch {
		case known && strings.Contains(s.token, "~"):
			may, since, what = ttl+may, max(left, s.first), "after its last holder"
		case known && s.reader:
			may, since, what = ttl+may, max(left, s.first), "after the last reader"
		case known:
			since, what = max(left, s.first), "after its release"
		}
		within := history.Span{From: since, To: s.last}
		excused, _ := stalls.during(within)
		if !known {
			excused = append(excused, waits[s.name]...)
		}
		if stood := time.Duration(s.last - since - history.Covered(within, excused)); stood > may {
			all = append(all, history.Violation{Kind: keyLeft, At: s.last, Name: s.name,
				Text: fmt.Sprintf("the key of %q on master %d stood for %v with token %s, %s", s.name, s.master, stood, s.token, what)})
		}
	}
	return all
}

// revived reports whether the key of a lease that has ended may stand at master i by a grant to its old claim. That claim was in the queue
// there. It was granted the lock, and was released. Then the master lost the tail of its file, so the claim was in the queue again. A
// release can grant it the lock, for less than the TTL. A key that was only not deleted has expired a TTL after the lease has ended.
//
// A wait may have given up a claim for another one. No lease has the token of the first, so it is not in the history. It is taken for one of a call
// of the same process for the same name that was waiting when the master lost the tail of its file.
func (r *run) revived(i int, name, token string) bool {
	if strings.Contains(token, "~") { // the lock may be kept
		return false
	}
	var calls, same []history.Operation
	_, process, _ := strings.Cut(token, "@")
	clients := make(map[string]bool) // that had leases with tokens of this process
	all := r.history.Snapshot()
	for _, o := range all {
		if o.Token == token {
			calls = append(calls, o)
		}
		if _, p, found := strings.Cut(o.Token, "@"); found && p == process {
			clients[clientOf(o.ID)] = true
		}
	}
	for _, o := range all {
		if o.Name == name && clients[clientOf(o.ID)] {
			same = append(same, o)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.ran, func(f ran) bool {
		if f.kind.name != tailLost || f.masters[0] != i {
			return false
		}
		// during reports whether a call was going on at the loss, and ended more than a TTL ago.
		during := func(o history.Operation) bool {
			end := max(o.Left, o.Refused)
			return o.Asked < f.during.From && end > f.during.From && time.Duration(history.Now()-end) > r.ttl
		}
		if len(calls) == 0 {
			return slices.ContainsFunc(same, during)
		}
		return !slices.ContainsFunc(calls, func(o history.Operation) bool { return !during(o) })
	})
}

// clientOf returns the first two parts of the id of a call: the number of a client, and which of its processes made the call.
func clientOf(id string) string {
	if parts := strings.SplitN(id, ".", 3); len(parts) == 3 {
		return parts[0] + "." + parts[1]
	}
	return id
}

// keys returns the lock keys that stand on the masters. Unless revived is true, those do not count that stand by a grant to a claim that a master
// has revived.
func (r *run) keys(revived bool) (all []history.Violation, err error) {
	names := r.names()
	for i, s := range r.fleet {
		conn, err := redis.Dial("tcp", s.Addr())
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		keys := keysOf(names, r.subject.key, i)
		stand, err := tokens(conn, names, keys)
		if err != nil {
			return nil, err
		}
		for n, tokens := range stand {
			if names[n].Limit > 0 {
				left, err := permitsLeft(conn, names[n].Name, keys[n], i)
				if err != nil {
					return nil, err
				}
				all = append(all, left...)
				continue
			}
			for _, token := range tokens {
				if !revived && r.revived(i, names[n].Name, token) {
					continue
				}
				all = append(all, history.Violation{Kind: keyLeft, At: history.Now(), Name: names[n].Name,
					Text: fmt.Sprintf("the key of %q stands on master %d with token %s, though all clients have unlocked and closed", names[n].Name, i, token)})
			}
		}
	}
	return all, nil
}
