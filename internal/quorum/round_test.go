package quorum

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// A recorder notes whether the vote was counted when it is told of the answer.
type recorder struct {
	round  *Round
	counts []bool
}

func (l *recorder) note() { l.counts = append(l.counts, l.round.Votes()[0].In) }
func (l *recorder) Heard(int, wire.Answer) (news bool) {
	l.note()
	return false
}
func (l *recorder) Counted() { l.note() }

// Otherwise a claim whose last vote is just coming could find its round over, and the vote missing: it was given up although
// it had won.
func TestAListenerHearsAnAnswerBeforeItIsCounted(t *testing.T) {
	r := &Round{group: NewGroup(nil), ballot: NewBallot(1), missing: 1}
	l := &recorder{round: r}
	r.each = l
	r.Answered(0, wire.Answer{Outcome: wire.Granted})
	if len(l.counts) != 2 || l.counts[0] || !l.counts[1] {
		t.Errorf("Heard and Counted found the vote counted: %v, want [false true]", l.counts)
	}
}

// A deaf listener ignores what it is told.
type deaf struct{}

func (deaf) Heard(int, wire.Answer) (news bool) { return false }
func (deaf) Counted()                           {}

// A listener says that an answer is news if it was granted, and counts the calls of Counted.
type listener struct{ counted int }

func (l *listener) Heard(_ int, a wire.Answer) (news bool) { return a.Done() }
func (l *listener) Counted()                               { l.counted++ }

// A goroutine that is told of each answer is woken by each. It need not be: see Listener.
func TestAListenerIsToldOfNewsAndOfWhatExpireReturns(t *testing.T) {
	refused, granted := wire.Answer{Outcome: wire.Taken}, wire.Answer{Outcome: wire.Granted}
	for _, row := range []struct {
		name  string
		hurry bool
		want  [5]int // how often it was told, after each answer
		news  int    // the answer that is granted
	}{
		{"the last one", false, [5]int{0, 0, 0, 0, 1}, -1},
		{"those of a quorum, and the last one", true, [5]int{0, 0, 1, 1, 2}, -1},
		{"news", true, [5]int{0, 1, 2, 2, 3}, 1},
		{"news that are the last one", false, [5]int{0, 0, 0, 0, 1}, 4},
	} {
		l := new(listener)
		r := &Round{group: NewGroup(nil), ballot: NewBallot(5), missing: 5, each: l, ended: true, expiry: time.NewTimer(time.Hour), limit: Limit{Least: time.Hour, Hurry: row.hurry}}
		for i, want := range row.want {
			a := refused
			if i == row.news {
				a = granted
			}
			if r.Answered(i, a); l.counted != want {
				t.Errorf("%s: after %d answers it was told %d times, want %d", row.name, i+1, l.counted, want)
			}
		}
	}
}

// tallyOf returns the tally of n masters.
func tallyOf(n, granted, refused, failed int) Tally {
	return Tally{N: n, Need: Majority(n), Granted: granted, Refused: refused, Failed: failed}
}

func TestARoundEndsWithItsGoalOrItsTime(t *testing.T) {
	second := Limit{Least: time.Second}
	hurry := Limit{Least: time.Second, Hurry: true}
	type masters []*station
	for _, row := range []struct {
		name     string
		stations masters
		kind     wire.Kind
		limit    Limit
		each     Listener
		goal     func(Tally) bool
		after    time.Duration // when it ends
		want     Tally
	}{
		{"a quorum has granted", masters{{away: 10 * ms}, {away: 20 * ms}, {away: 300 * ms}}, wire.Renew, second, nil, Tally.Won, 20 * ms, tallyOf(3, 2, 0, 0)},
		{"a quorum has refused", masters{{away: 10 * ms, refuses: true}, {away: 300 * ms}, {away: 20 * ms, refuses: true}}, wire.Renew, second, nil, Tally.Decided, 20 * ms, tallyOf(3, 0, 2, 0)},
		{"all have answered", masters{{away: 10 * ms}, {away: 20 * ms}, {away: 300 * ms}}, wire.Renew, second, nil, never, 300 * ms, tallyOf(3, 3, 0, 0)},
		{"the time is over", masters{{away: 10 * ms}, {silent: true}, {away: 300 * ms}}, wire.Renew, Limit{Least: 50 * ms}, nil, never, 50 * ms, tallyOf(3, 1, 0, 2)},
		{"the time of a farther quorum is longer", masters{{away: 10 * ms}, {away: 300 * ms}, {away: 300 * ms}}, wire.Renew, Automatic(10 * time.Second), nil, never, 300 * ms, tallyOf(3, 3, 0, 0)},
		{"a master is down", masters{{away: 10 * ms}, {down: true}, {away: 20 * ms}}, wire.Renew, second, nil, never, 20 * ms, tallyOf(3, 2, 0, 1)},
		{"all masters are down", masters{{down: true}, {down: true}, {down: true}}, wire.Renew, second, nil, never, 0, tallyOf(3, 0, 0, 3)},

		// The time becomes longer, since a quorum needs a master that is farther away.
		{"a near master ends", masters{{away: 2 * ms, hangsUp: true}, {away: 2 * ms}, {away: 300 * ms}}, wire.Renew, Automatic(10 * time.Second), nil, never, 300 * ms, tallyOf(3, 2, 0, 1)},
		{"a near master ends, and the far one is silent", masters{{away: 2 * ms, hangsUp: true}, {away: 2 * ms}, {away: 300 * ms, silent: true}}, wire.Renew, Automatic(10 * time.Second), nil, never, 600 * ms, tallyOf(3, 1, 0, 2)},

		// Once a quorum has answered, the others have two round trips of a quorum, and 2 ms.
		{"hurry: a far master", masters{{away: 10 * ms, refuses: true}, {away: 300 * ms}, {away: 20 * ms, refuses: true}}, wire.Renew, hurry, nil, never, 20 * ms, tallyOf(3, 0, 2, 1)},
		{"hurry: a far master, and no quorum has answered", masters{{away: 10 * ms, refuses: true}, {away: 300 * ms}, {away: 310 * ms, refuses: true}}, wire.Renew, hurry, nil, never, 310 * ms, tallyOf(3, 1, 2, 0)},
		{"hurry: a master that is just near enough", masters{{away: 10 * ms, refuses: true}, {away: 41 * ms}, {away: 20 * ms, refuses: true}}, wire.Renew, hurry, nil, never, 41 * ms, tallyOf(3, 1, 2, 0)},
		{"hurry: a near master is silent", masters{{away: 20 * ms, refuses: true}, {away: 20 * ms, silent: true}, {away: 20 * ms, refuses: true}}, wire.Renew, hurry, nil, never, 42 * ms, tallyOf(3, 0, 2, 1)},
		{"hurry: the time is shorter anyway", masters{{away: 20 * ms, refuses: true}, {away: 20 * ms, silent: true}, {away: 20 * ms, refuses: true}}, wire.Renew, Limit{Least: 30 * ms, Hurry: true}, nil, never, 30 * ms, tallyOf(3, 0, 2, 1)},
		{"hurry: the votes are split", masters{{away: 20 * ms, refuses: true}, {away: 20 * ms, silent: true}, {away: 20 * ms}}, wire.Renew, hurry, nil, never, 42 * ms, tallyOf(3, 1, 1, 1)},
		{"hurry: nobody waits for the others if it is won", masters{{away: 20 * ms}, {away: 20 * ms, silent: true}, {away: 20 * ms}}, wire.Renew, hurry, nil, never, time.Second, tallyOf(3, 2, 0, 1)},
		{"hurry: it is won, and each answer is listened to", masters{{away: 20 * ms}, {away: 20 * ms, silent: true}, {away: 20 * ms}}, wire.Renew, hurry, deaf{}, never, 42 * ms, tallyOf(3, 2, 0, 1)},
		{"no hurry", masters{{away: 20 * ms, refuses: true}, {away: 20 * ms, silent: true}, {away: 20 * ms, refuses: true}}, wire.Renew, second, deaf{}, never, time.Second, tallyOf(3, 0, 2, 1)},

		// The time of a master begins when its first connection is made, but not for a release.
		{"a first connection", masters{{away: 10 * ms}, {away: 10 * ms}, {away: 10 * ms, dial: 200 * ms}}, wire.Renew, Limit{Least: 50 * ms}, nil, never, 220 * ms, tallyOf(3, 3, 0, 0)},
		{"a first connection, and then silence", masters{{away: 10 * ms}, {away: 10 * ms}, {away: 10 * ms, dial: 200 * ms, silent: true}}, wire.Renew, Limit{Least: 50 * ms}, nil, never, 300 * ms, tallyOf(3, 2, 0, 1)},
		{"a first connection, and another is silent", masters{{away: 10 * ms}, {away: 10 * ms, silent: true}, {away: 10 * ms, dial: 200 * ms}}, wire.Renew, Limit{Least: 50 * ms}, nil, never, 220 * ms, tallyOf(3, 2, 0, 1)},
		{"a first connection, and a release", masters{{away: 10 * ms}, {away: 10 * ms}, {away: 10 * ms, dial: 200 * ms}}, wire.Release, Limit{Least: 50 * ms}, nil, never, 50 * ms, tallyOf(3, 2, 0, 1)},
		{"a first connection, and hurry", masters{{away: 10 * ms, refuses: true}, {away: 10 * ms, refuses: true}, {away: 10 * ms, dial: 200 * ms}}, wire.Renew, hurry, nil, never, 22 * ms, tallyOf(3, 0, 2, 1)},
	} {
		t.Run(row.name, func(t *testing.T) {
			among(t, row.stations, func(t *testing.T, g *Group) {
				start := time.Now()
				r := g.AskEach(row.kind, mine(wire.ClaimOf{}), row.limit, row.each)
				got := r.Wait(t.Context(), nil, row.goal)
				if after := time.Since(start); got != row.want || after != row.after {
					t.Errorf("%+v after %v, want %+v after %v", got, after, row.want, row.after)
				}
				r.End()
			})
		})
	}
}

func TestALateMasterIsSaidToBeLate(t *testing.T) {
	for _, row := range []struct {
		name     string
		stations []*station
		limit    Limit
		want     LateError
	}{
		{"its time is over", []*station{{}, {away: 30 * ms, silent: true}, {}}, Limit{Least: 50 * ms}, LateError{50 * ms, 30 * ms}},
		{"others have answered", []*station{{away: 20 * ms, refuses: true}, {away: 30 * ms, silent: true}, {away: 20 * ms, refuses: true}}, Limit{Least: time.Second, Hurry: true}, LateError{42 * ms, 30 * ms}},
		{"others have answered, and it is too far away", []*station{{away: 20 * ms, refuses: true}, {away: 300 * ms}, {away: 20 * ms, refuses: true}}, Limit{Least: time.Second, Hurry: true}, LateError{20 * ms, 300 * ms}},
	} {
		t.Run(row.name, func(t *testing.T) {
			among(t, row.stations, func(t *testing.T, g *Group) {
				r := g.Ask(wire.Renew, mine(wire.ClaimOf{}), row.limit)
				defer r.End()
				r.Wait(t.Context(), nil, never)
				var late *LateError
				if !errors.As(r.Votes()[1].Err, &late) || *late != row.want {
					t.Errorf("the vote is %+v, want the error %+v", r.Votes()[1], row.want)
				}
			})
		})
	}
}

// Once a quorum has answered, the time of the others does not become longer again, although masters that have answered end, and a quorum of those
// that are up then needs a farther one.
func TestTheTimeOfAHurryStands(t *testing.T) {
	stations := []*station{{away: 10 * ms, refuses: true}, {away: 10 * ms, refuses: true}, {away: 10 * ms, refuses: true}, {away: 300 * ms}, {away: 10 * ms, silent: true}}
	among(t, stations, func(t *testing.T, g *Group) {
		start := time.Now()
		r := g.Ask(wire.Renew, mine(wire.ClaimOf{}), Limit{Least: 50 * ms, Most: 500 * ms, MostFar: 2 * time.Second, Hurry: true})
		defer r.End()
		time.AfterFunc(11*ms, func() { // now a quorum needs the far master
			for i, s := range stations[:2] {
				s.mu.Lock()
				s.hangsUp, s.away = true, 0
				s.mu.Unlock()
				g.masters[i].Ask(wire.Renew, mine(wire.ClaimOf{}), nil)
			}
		})
		got := r.Wait(t.Context(), nil, never)
		if after := time.Since(start); got != tallyOf(5, 0, 3, 2) || after != 22*ms {
			t.Errorf("%+v after %v, want that all but three have failed after 22 ms", got, after)
		}
	})
}

func TestAWaitEndsWithItsContextOrWhenItIsStopped(t *testing.T) {
	among(t, []*station{{}, {silent: true}, {silent: true}}, func(t *testing.T, g *Group) {
		for _, stops := range []bool{false, true} {
			r := g.Ask(wire.Renew, mine(wire.ClaimOf{}), Limit{Least: time.Second})
			ctx, cancel := context.WithCancel(t.Context())
			stop := make(chan struct{})
			start := time.Now()
			time.AfterFunc(30*ms, func() {
				if stops {
					close(stop)
				} else {
					cancel()
				}
			})
			got := r.Wait(ctx, stop, Tally.Decided)
			if after := time.Since(start); got != tallyOf(3, 1, 0, 0) || after != 30*ms {
				t.Errorf("%+v after %v, want one vote after 30 ms", got, after)
			}
			got = r.Wait(t.Context(), nil, Tally.Decided) // the waiting goes on
			if after := time.Since(start); got != tallyOf(3, 1, 0, 2) || after != time.Second {
				t.Errorf("%+v after %v, want that two have failed after a second", got, after)
			}
			r.End()
			cancel()
		}
	})
}

// A signal that is left would end the next Wait before its goal is reached.
func TestNoSignalIsLeftWhenAWaitEnds(t *testing.T) {
	r := &Round{group: NewGroup(nil), ballot: NewBallot(1), reached: make(chan struct{}, 1), goal: never}
	r.reached <- struct{}{}
	if got := r.stopWaiting(); got != tallyOf(1, 0, 0, 0) || len(r.reached) != 0 || r.goal != nil {
		t.Errorf("%+v, %d signals, and the goal is left: %t", got, len(r.reached), r.goal != nil)
	}
	r.stopWaiting() // there is none
}

// A round whose masters have all answered is used again, with nothing of before. One that misses an answer is not: a late
// vote would count for another command.
func TestARoundIsUsedAgainWithoutVotes(t *testing.T) {
	among(t, []*station{{}, {silent: true}, {away: 300 * ms}}, func(t *testing.T, g *Group) {
		again, seen := 0, make(map[*Round]bool)
		for i := range 40 {
			late := i%2 == 0
			limit, each := Limit{Least: time.Second}, Listener(nil)
			if late {
				limit, each = Limit{Least: 700 * ms, Hurry: true}, deaf{} // it ends when two have answered
			}
			start := time.Now()
			r := g.AskEach(wire.Renew, mine(wire.ClaimOf{}), limit, each)
			if seen[r] {
				again++
			}
			seen[r] = true
			if r.Votes()[2].In {
				t.Fatalf("round %d begins with the votes %v", i, r.Votes())
			}
			got := r.Wait(t.Context(), nil, never)
			after := time.Since(start) // the far master may have answered a ping before
			if got != tallyOf(3, 2, 0, 1) || late && after > 600*ms || !late && after != time.Second {
				t.Fatalf("round %d, which hurries: %t: %+v after %v", i, late, got, after)
			}
			r.End()
			if next := g.Ask(wire.Renew, mine(wire.ClaimOf{}), limit); next == r {
				t.Fatal("a round is used again before its last answer has come")
			} else {
				next.End()
			}
			time.Sleep(2 * time.Minute) // the connection to the silent one is retired
		}
		if again == 0 {
			t.Error("no round was used again")
		}
	})
}

// A pool may drop what it is given, now and then.
func TestEveryRoundIsUsedAgainWhenAllHaveAnswered(t *testing.T) {
	limit := Limit{Least: 50 * ms}
	for _, row := range []struct {
		name string
		ask  func(t *testing.T, g *Group)
	}{
		{"after Wait", func(t *testing.T, g *Group) {
			r := g.Ask(wire.Renew, mine(wire.ClaimOf{}), limit)
			r.Wait(t.Context(), nil, never)
			r.End()
		}},
		{"ended when all have answered", func(t *testing.T, g *Group) {
			r := g.Ask(wire.Renew, mine(wire.ClaimOf{}), limit)
			time.Sleep(time.Second)
			r.End()
		}},
		{"Query", func(t *testing.T, g *Group) { g.Query(t.Context(), nil, wire.Query{{"PING"}}, limit, All) }},
		{"Tell", func(t *testing.T, g *Group) { g.Tell(wire.Renew, mine(wire.ClaimOf{}), &outcome{}) }},
		{"Leave at once", func(t *testing.T, g *Group) { g.Ask(wire.Renew, mine(wire.ClaimOf{}), limit).Leave(&outcome{}) }},
		{"Leave when all have answered", func(t *testing.T, g *Group) {
			r := g.Ask(wire.Renew, mine(wire.ClaimOf{}), limit)
			time.Sleep(time.Second)
			r.Leave(&outcome{})
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			among(t, []*station{{}, {away: 10 * ms}, {away: 300 * ms}}, func(t *testing.T, g *Group) {
				kept := 0
				for range 30 {
					row.ask(t, g)
					time.Sleep(10 * time.Second)
					if r, _ := g.idle.Get().(*Round); r != nil {
						kept++
					}
				}
				if kept == 0 {
					t.Error("none of 30 rounds was kept")
				}
			})
		})
	}
}

// All have answered, and the caller still reads the votes.
func TestARoundIsNotUsedAgainBeforeItsEnd(t *testing.T) {
	among(t, []*station{{}, {}, {}}, func(t *testing.T, g *Group) {
		var all []*Round
		for range 30 {
			r := g.Ask(wire.Renew, mine(wire.ClaimOf{}), Limit{Least: time.Second})
			time.Sleep(10 * ms)
			if slices.Contains(all, r) {
				t.Fatal("two callers have the same round")
			}
			all = append(all, r)
		}
		for _, r := range all {
			r.End()
		}
	})
}

// The goroutine that brings a vote must not wait for the one that waits for the goal: that one may have stopped.
func TestVotesBehindTheGoalDoNotBlock(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) { // it reports that all wait for ever
		r := &Round{group: NewGroup(nil), ballot: NewBallot(3), reached: make(chan struct{}, 1), missing: 4, goal: Tally.Won}
		for i := range 3 {
			r.Answered(i, wire.Answer{Outcome: wire.Granted})
		}
		r.Answered(0, wire.Answer{Outcome: wire.Granted})
		if len(r.reached) != 1 {
			t.Errorf("%d signals, want 1", len(r.reached))
		}
	})
}

// A round is used again by Tell, too.
func TestAnEarlierListenerIsNotTold(t *testing.T) {
	among(t, []*station{{}, {}, {}}, func(t *testing.T, g *Group) {
		for range 30 {
			early := &counter{}
			r := g.AskEach(wire.Renew, mine(wire.ClaimOf{}), Limit{Least: time.Second}, early)
			r.Wait(t.Context(), nil, never)
			r.End()
			synctest.Wait()
			g.Tell(wire.Renew, mine(wire.ClaimOf{}), &outcome{})
			time.Sleep(time.Second)
			if n := early.n.Load(); n != 3 {
				t.Fatalf("a listener was told of %d answers, want 3", n)
			}
		}
	})
}

// A counter counts the answers that it is told of.
type counter struct {
	deaf
	n atomic.Int32
}

func (c *counter) Heard(int, wire.Answer) (news bool) {
	c.n.Add(1)
	return true
}

// An outcome is what an Observer was told.
type outcome struct {
	mu      sync.Mutex
	start   time.Time
	tallies []Tally
	votes   [][]Vote
	after   []time.Duration
}

func (o *outcome) Settled(r *Round, t Tally) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tallies, o.votes, o.after = append(o.tallies, t), append(o.votes, r.Votes()), append(o.after, time.Since(o.start))
}

// is checks that the observer was told once.
func (o *outcome) is(t *testing.T, want Tally, after time.Duration) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.tallies, []Tally{want}) || !slices.Equal(o.after, []time.Duration{after}) {
		t.Errorf("told of %+v after %v, want %+v after %v", o.tallies, o.after, want, after)
	} else if got := Count(o.votes[0]); got != want {
		t.Errorf("told of %+v, and the votes are %+v", want, got)
	}
}

func TestAnObserverIsToldOnceWhenVotesAreSettled(t *testing.T) {
	type masters []*station
	for _, row := range []struct {
		name     string
		stations masters
		after    time.Duration
		want     Tally
	}{
		{"won", masters{{away: 10 * ms}, {away: 20 * ms}, {away: 300 * ms}}, 20 * ms, tallyOf(3, 2, 0, 0)},
		{"ruled out", masters{{away: 10 * ms, refuses: true}, {away: 20 * ms, refuses: true}, {away: 300 * ms}}, 20 * ms, tallyOf(3, 0, 2, 0)},
		{"lost, and perhaps ruled out", masters{{away: 10 * ms, refuses: true}, {down: true}, {away: 300 * ms, refuses: true}}, 300 * ms, tallyOf(3, 0, 2, 1)},
		{"all are down", masters{{down: true}, {down: true}, {down: true}}, 0, tallyOf(3, 0, 0, 2)},
	} {
		t.Run(row.name, func(t *testing.T) {
			among(t, row.stations, func(t *testing.T, g *Group) {
				o := &outcome{start: time.Now()}
				g.Tell(wire.Renew, mine(wire.ClaimOf{}), o)
				time.Sleep(time.Minute)
				o.is(t, row.want, row.after)
			})
		})
	}
}

func TestARoundThatIsLeftReportsWhatIsSettled(t *testing.T) {
	for _, row := range []struct {
		name         string
		refuses      bool
		leave, after time.Duration
		want         Tally
	}{
		{"at once", false, 0, 20 * ms, tallyOf(3, 2, 0, 0)},
		{"before it is settled", false, 15 * ms, 20 * ms, tallyOf(3, 2, 0, 0)},
		{"when it is won", false, 100 * ms, 100 * ms, tallyOf(3, 2, 0, 0)},
		{"when it is ruled out", true, 100 * ms, 100 * ms, tallyOf(3, 0, 2, 0)},
		{"when all have answered", false, 400 * ms, 400 * ms, tallyOf(3, 3, 0, 0)},
	} {
		t.Run(row.name, func(t *testing.T) {
			among(t, []*station{{away: 10 * ms, refuses: row.refuses}, {away: 20 * ms, refuses: row.refuses}, {away: 300 * ms}}, func(t *testing.T, g *Group) {
				o := &outcome{start: time.Now()}
				r := g.Ask(wire.Renew, mine(wire.ClaimOf{}), Limit{Least: 5 * ms})
				time.Sleep(row.leave)
				r.Leave(o)
				time.Sleep(time.Minute) // the time of the round is over
				o.is(t, row.want, row.after)
			})
		})
	}
}

// Rounds on which nobody waits are ended by their callers.
func TestExpireFailsThoseThatAreLate(t *testing.T) {
	among(t, []*station{{away: 10 * ms}, {silent: true}, {away: 20 * ms}}, func(t *testing.T, g *Group) {
		r := g.AskEach(wire.Renew, mine(wire.ClaimOf{}), Limit{Least: 50 * ms}, deaf{})
		time.Sleep(30 * ms)
		if next := r.Expire(30 * ms); next != 20*ms || r.Votes()[1].In {
			t.Errorf("after 30 of 50 ms: %v, %v, want 20 ms, and that nothing has failed", next, r.Votes())
		}
		if next := r.Expire(50 * ms); next != 0 || r.Votes()[1].Err == nil {
			t.Errorf("after 50 of 50 ms: %v, %v, want that the silent one has failed", next, r.Votes())
		}
		if next := r.Expire(10 * ms); next != 0 {
			t.Errorf("all have voted or failed, and the next time is %v", next)
		}
		r.End()
	})
	among(t, []*station{{away: 10 * ms}, {away: 10 * ms, dial: 80 * ms}, {away: 20 * ms}}, func(t *testing.T, g *Group) {
		r := g.AskEach(wire.Renew, mine(wire.ClaimOf{}), Limit{Least: 50 * ms}, deaf{})
		time.Sleep(50 * ms)
		if next := r.Expire(50 * ms); next != 50*ms { // a first connection is under way
			t.Errorf("the next time is %v, want 50 ms", next)
		}
		r.End()
	})
}

func TestACommandAndAQueryGoToEveryMaster(t *testing.T) {
	stations := []*station{{}, {away: 300 * ms}, {refuses: true}}
	among(t, stations, func(t *testing.T, g *Group) {
		g.Send(wire.Release, mine(wire.ClaimOf{}))
		time.Sleep(time.Second)
		for i, s := range stations {
			if n := len(s.arrivals(time.Time{})); n != 1 {
				t.Errorf("master %d was sent %d commands, want 1", i, n)
			}
		}
		votes := g.Query(t.Context(), nil, wire.Query{{"PING"}}, Limit{Least: 50 * ms}, All)
		if got := Count(votes); got != tallyOf(3, 2, 0, 1) {
			t.Errorf("a query is answered %v, want that the far master is late", votes)
		}
		r := g.Ask(wire.Renew, mine(wire.ClaimOf{}), Limit{Least: 50 * ms})
		time.Sleep(20 * ms)
		for _, row := range []struct {
			name string
			is   func(Vote) bool
			want bool
		}{
			{"granted", Vote.Granted, true},
			{"missing", func(v Vote) bool { return v.Outcome == wire.Missing }, true},
			{"late", func(v Vote) bool { return v.Outcome == wire.Failed }, false}, // it has no vote yet, whose outcome would be that
		} {
			if got := r.Any(row.is); got != row.want {
				t.Errorf("any vote is %s: %t, want %t", row.name, got, row.want)
			}
		}
		r.End()
	})
}

func TestAGroupIsWhatAMajorityOfItsMastersAre(t *testing.T) {
	for _, row := range []struct {
		are  []bool
		want bool
	}{
		{[]bool{true, false, true}, true},
		{[]bool{true, false, false}, false},
		{[]bool{true, true, false, false}, false},
		{[]bool{true}, true},
	} {
		g := NewGroup(make([]*master.Master, len(row.are)))
		next := 0
		got := g.most(func(*master.Master) bool {
			next++
			return row.are[next-1]
		})
		if got != row.want {
			t.Errorf("%v: %t, want %t", row.are, got, row.want)
		}
	}
	among(t, []*station{{}, {}, {}}, func(t *testing.T, g *Group) { // without a subscription
		if g.Listening() || !g.Up() {
			t.Errorf("masters without a subscription listen: %t, and are up: %t", g.Listening(), g.Up())
		}
	})
}

// The commands of an acquisition arrive at a quorum of masters at the same moment.
func TestAnAcquisitionArrivesEverywhereAtTheSameMoment(t *testing.T) {
	type masters []*station
	grantable := wire.ClaimOf{Kind: wire.Register, Grant: 400 * ms, RegisterTTL: 400 * ms}
	for _, row := range []struct {
		name     string
		stations masters
		kind     wire.Kind
		of       wire.ClaimOf
		want     []time.Duration
	}{
		{"near and far", masters{{away: 2 * ms}, {away: 2 * ms}, {away: 20 * ms}, {away: 20 * ms}, {away: 40 * ms}}, wire.Set, wire.ClaimOf{}, []time.Duration{10 * ms, 10 * ms, 10 * ms, 10 * ms, 20 * ms}},
		{"a difference of 2 ms", masters{{away: 18 * ms}, {away: 20 * ms}, {away: 30 * ms}}, wire.Set, wire.ClaimOf{}, []time.Duration{10 * ms, 10 * ms, 15 * ms}},
		{"a difference of 1.8 ms", masters{{away: 18200 * time.Microsecond}, {away: 20 * ms}, {away: 30 * ms}}, wire.Set, wire.ClaimOf{}, []time.Duration{9100 * time.Microsecond, 10 * ms, 15 * ms}},
		{"a quorum is near", masters{{away: 2 * ms}, {away: 2 * ms}, {away: 20 * ms}}, wire.Set, wire.ClaimOf{}, []time.Duration{ms, ms, 10 * ms}},
		{"the quorum needs all that are up", masters{{away: 2 * ms}, {down: true}, {away: 20 * ms}}, wire.Set, wire.ClaimOf{}, []time.Duration{10 * ms, -1, 10 * ms}},
		{"no quorum is up", masters{{away: 2 * ms}, {down: true}, {down: true}, {down: true}, {away: 20 * ms}}, wire.Set, wire.ClaimOf{}, []time.Duration{ms, -1, -1, -1, 10 * ms}},
		{"a registration", masters{{away: 2 * ms}, {away: 20 * ms}, {away: 20 * ms}}, wire.Register, grantable, []time.Duration{10 * ms, 10 * ms, 10 * ms}},
		{"a registration that follows a release", masters{{away: 2 * ms}, {away: 20 * ms}, {away: 20 * ms}}, wire.Register, wire.ClaimOf{Kind: wire.Register}, []time.Duration{ms, 10 * ms, 10 * ms}},
		{"a renewal", masters{{away: 2 * ms}, {away: 20 * ms}, {away: 20 * ms}}, wire.Renew, wire.ClaimOf{}, []time.Duration{ms, 10 * ms, 10 * ms}},
	} {
		t.Run(row.name, func(t *testing.T) {
			among(t, row.stations, func(t *testing.T, g *Group) {
				start := time.Now()
				r := g.Ask(row.kind, mine(row.of), Limit{Least: time.Second})
				time.Sleep(100 * ms)
				r.End()
				var got []time.Duration
				for _, s := range row.stations {
					got = append(got, append(s.arrivals(start), -1)[0])
				}
				if !reflect.DeepEqual(got, row.want) {
					t.Errorf("it arrives after %v, want %v", got, row.want)
				}
			})
		})
	}
}

func TestACommandOfAReleasedClaimIsNotSentLater(t *testing.T) {
	stations := []*station{{away: 2 * ms}, {away: 20 * ms}, {away: 20 * ms}}
	among(t, stations, func(t *testing.T, g *Group) {
		claim := mine(wire.ClaimOf{})
		r := g.Ask(wire.Set, claim, Limit{Least: time.Second})
		g.Send(wire.Release, claim)
		got := r.Wait(t.Context(), nil, never)
		if n := len(stations[0].arrivals(time.Time{})); n != 1 || r.Votes()[0].Err == nil || got.Granted > 2 {
			t.Errorf("%d commands have arrived at the near master, want the release only; the votes are %v", n, r.Votes())
		}
		r.End()
		synctest.Wait()
	})
}

func TestDistancesAreThoseOfAQuorum(t *testing.T) {
	type masters []*station
	for _, row := range []struct {
		name                string
		stations            masters
		distance, roundTrip time.Duration
	}{
		{"three of five", masters{{away: 5 * ms}, {away: ms}, {away: 30 * ms}, {away: 3 * ms}, {away: 9 * ms}}, 5 * ms, 5 * ms},
		{"two of three are up", masters{{away: 5 * ms}, {down: true}, {away: 30 * ms}}, 30 * ms, 30 * ms},
		{"one of three is up", masters{{away: 5 * ms}, {down: true}, {down: true}}, 0, 5 * ms},
		{"a microsecond", masters{{away: time.Microsecond}, {away: time.Microsecond}, {away: ms}}, time.Microsecond, time.Microsecond},
		{"less than a microsecond", masters{{away: 900}, {away: 900}, {away: ms}}, 0, 900},
	} {
		t.Run(row.name, func(t *testing.T) {
			among(t, row.stations, func(t *testing.T, g *Group) {
				late := 2*row.roundTrip + lateLeast
				if d, trip := g.Distance(), g.RoundTrip(); d != row.distance || trip != row.roundTrip || g.Late() != late {
					t.Errorf("Distance %v, RoundTrip %v, Late %v, want %v, %v, %v", d, trip, g.Late(), row.distance, row.roundTrip, late)
				}
			})
		})
	}
}
