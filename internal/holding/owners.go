package holding

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/recent"
	"github.com/redlock-go/redlock/internal/wire"
)

const (
	// AskEvery is how often the masters are asked who holds one lock, at most.
	AskEvery = time.Second
	// answerFor is for how long an answer is used, beyond the time until the next is expected.
	answerFor = 2 * time.Second
	// entryLife is for how long an entry is kept: longer than its answer is used.
	entryLife = 20 * time.Second
)

// Owners know who held the locks that a client waits for, by key. They are safe for concurrent use.
type Owners struct {
	query Ask // immutable

	mu    sync.Mutex // guards what follows
	known recent.Map[entry]
}

// Ask sends a query to all masters, and returns their answers when these are enough: see quorum.Group.Query. It returns nil if the client is
// closed.
type Ask func(ctx context.Context, q wire.Query, enough func(quorum.Tally) bool) []quorum.Vote

// An entry says who holds one lock.
type entry struct {
	asked time.Time // when the masters were asked last
	held  Holding   // the last answer
	until time.Time // until when that is used
}

// NewOwners returns Owners that know of no lock, and ask the masters by query.
func NewOwners(query Ask) *Owners {
	return &Owners{query: query, known: recent.Map[entry]{Keep: entryLife}}
}

// Ask asks the masters who holds the lock, until the answers are enough, unless they were asked a moment ago.
func (o *Owners) Ask(ctx context.Context, key string, enough func(quorum.Tally) bool) {
	if o.beginAsking(key) {
		o.peek(ctx, key, enough)
	}
}

// AskLater is Ask, and waits for nothing.
func (o *Owners) AskLater(key string) {
	if o.beginAsking(key) {
		go o.peek(context.Background(), key, quorum.All)
	}
}

func (o *Owners) peek(ctx context.Context, key string, enough func(quorum.Tally) bool) {
	if votes := o.query(ctx, wire.NewPeek(key), enough); votes != nil {
		o.Heard(key, Peeked(votes), 0)
	}
}

// beginAsking reports whether the masters are to be asked now, and notes that they are.
func (o *Owners) beginAsking(key string) bool {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	n, _ := o.known.Get(key)
	if !n.asked.IsZero() && now.Sub(n.asked) < AskEvery {
		return false
	}
	n.asked = now
	o.known.Put(key, n)
	return true
}

// Heard notes who holds the lock. The next answer is expected after next.
func (o *Owners) Heard(key string, h Holding, next time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, _ := o.known.Get(key)
	n.held, n.until = h, time.Now().Add(next+answerFor)
	o.known.Put(key, n)
}

// Of returns who holds the lock, or where its key is not a lock, and reports whether one of these is known.
func (o *Owners) Of(key string) (h Holding, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, _ := o.known.Get(key)
	return n.held, (n.held.Masters > 0 && n.held.Held() || n.held.NotALock != nil) && !time.Now().After(n.until)
}

// Standing returns who holds a lock, as the votes on a claim say: they tell which token stands. If readers hold it at some
// master, or a key may be no lock, ask is true: the votes do not say enough, and a peek does.
func Standing(votes []quorum.Vote) (h Holding, ask bool) {
	h.Need = quorum.Majority(len(votes))
	tokens := make(map[string]int)
	for _, v := range votes {
		ask = ask || v.Odd
		if tokens[v.Standing]++; v.Standing != "" && tokens[v.Standing] > h.Masters {
			h.Token, h.Masters = v.Standing, tokens[v.Standing]
		}
	}
	return h, ask || tokens[wire.ReadersMarker] > 0
}

// Decode decodes the answers to a query. An answer that cannot be decoded becomes a failure.
func Decode[L any](votes []quorum.Vote, decode func([]any) (L, error)) (looks []L) {
	for i, v := range votes {
		if !v.Granted() {
			continue
		}
		look, err := decode(v.Replies)
		if err != nil {
			votes[i] = quorum.Vote{In: true, Answer: wire.Answer{Err: err}}
			continue
		}
		looks = append(looks, look)
	}
	return looks
}
