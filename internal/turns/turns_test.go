package turns

import (
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// claims makes claims of the key "a", each with a token of its own.
type claims int

func (n *claims) next() *master.SentClaim {
	*n++
	terms := wire.NewTerms("a", time.Second)
	return master.NewSentClaim(&terms, wire.ClaimOf{Token: fmt.Sprint("token", *n)})
}

// wantNext checks what the next acquisition is told.
func wantNext(t *testing.T, r *Releases, when string, kind wire.Kind, contended bool) {
	t.Helper()
	if k, c := r.Next("a"); k != kind || c != contended {
		t.Errorf("%s: the next acquisition is %v, contended %v; want %v, %v", when, k, c, kind, contended)
	}
}

func TestAnAcquisitionBehindAReleaseLeavesTheLockToThoseWhoQueue(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r, n := NewReleases(false), claims(0)
		wantNext(t, r, "without a release", wire.Set, false)
		r.Released(n.next(), false)
		wantNext(t, r, "behind a release", wire.Register, false)
		r.Released(n.next(), true)
		wantNext(t, r, "behind that of a lease that others had wanted", wire.Register, true)
		time.Sleep(politeFor)
		wantNext(t, r, "a second after a release", wire.Set, false)

		c := n.next()
		r.Released(c, false)
		r.Answered(c, false)
		wantNext(t, r, "behind a release that is answered", wire.Set, false)
		c = n.next()
		r.Released(c, false)
		r.Answered(c, true)
		wantNext(t, r, "behind one that has passed the lock on", wire.Register, true)
		if !r.PassedOn("a") || r.PassedOn("b") {
			t.Errorf("passed on: a %v, b %v; want a only", r.PassedOn("a"), r.PassedOn("b"))
		}
		c = n.next()
		r.Released(c, false)
		time.Sleep(politeFor / 2)
		r.Answered(c, true)
		time.Sleep(politeFor * 3 / 4)
		wantNext(t, r, "less than a second after the answer that it was passed on", wire.Register, true)
		time.Sleep(politeFor)
		if r.PassedOn("a") {
			t.Error("the lock is said to be passed on a second later")
		}
		wantNext(t, r, "a second after that", wire.Set, false)

		r.Released(n.next(), false)
		wantNext(t, r, "behind a release", wire.Register, false)
		c = n.next()
		r.Released(c, false)
		r.Answered(c, false)
		wantNext(t, r, "behind the second of two releases, which is answered", wire.Set, false)
	})
}

func TestTheAnswerToAnEarlierReleaseSaysNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r, n := NewReleases(false), claims(0)
		earlier := n.next()
		r.Released(earlier, false)
		r.Next("a")
		r.Released(n.next(), false)
		r.Answered(earlier, false)
		wantNext(t, r, "when an earlier release is answered", wire.Register, false)
	})
}

// Clients that do not queue find the lock free while an acquisition waits for the answer.
func TestOneAcquisitionInSeventeenWaitsForTheAnswer(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r, n := NewReleases(false), claims(0)
		var last *master.SentClaim
		for i := range followMost {
			if r.Awaited("a") != nil {
				t.Fatalf("acquisition %d in a row waits for an answer", i+1)
			}
			r.Next("a")
			last = n.next()
			r.Released(last, false)
		}
		r.Next("a")
		gap := r.Awaited("a")
		if gap == nil {
			t.Fatalf("acquisition %d in a row does not wait for an answer", followMost+1)
		}
		r.Answered(last, false)
		select {
		case <-gap:
		default:
			t.Error("it waits although the release is answered")
		}
		if r.Awaited("a") != nil {
			t.Error("one waits for a release that is answered")
		}
	})
}

func TestOneReleaseInTwelveIsOpen(t *testing.T) {
	const draws = 120_000
	open := 0
	for range draws {
		switch how := PassTo("t", true); {
		case how == wire.Open:
			open++
		case how != wire.ToNext("t"):
			t.Fatalf("a release says %q, want that it passes the lock on to t", how)
		}
		if how := PassTo("", false); how != wire.ToHead {
			t.Fatalf("a release says %q, want that it passes the lock on to the head", how)
		}
	}
	if want := draws / 12; open < want*9/10 || open > want*11/10 {
		t.Errorf("%d of %d are left open, want about %d", open, draws, want)
	}
}

func TestAClientWithoutWakeUpsWaitsForEachAnswer(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r, n := NewReleases(true), claims(0)
		if r.Awaited("a") != nil {
			t.Error("an acquisition waits without a release")
		}
		r.Released(n.next(), false)
		if r.Awaited("a") == nil {
			t.Error("an acquisition does not wait for the answer")
		}
	})
}

// The first poll of a claim is timed by the last turn: see waits.Pace.
func TestATurnIsKnownWhileOthersQueue(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r, terms, n := NewReleases(false), wire.NewTerms("a", time.Second), 0
		want := func(when string, want time.Duration) {
			t.Helper()
			if got := r.Turnaround("a"); got != want {
				t.Errorf("%s: the last turn took %v, want %v", when, got, want)
			}
		}
		turn := func(g, took time.Duration) *master.SentClaim {
			n++
			c := master.NewSentClaim(&terms, wire.ClaimOf{Token: fmt.Sprint("turn", n), Grant: g, Made: time.Now()})
			time.Sleep(took)
			r.Released(c, true)
			return c
		}
		want("without a release", 0)
		c := turn(400*time.Millisecond, 3*time.Second)
		want("behind a release", 3*time.Second)
		r.Answered(c, true)
		want("the lock was passed on", 3*time.Second)
		r.Next("a")
		want("the next acquisition has begun", 3*time.Second)
		turn(0, time.Second)
		want("behind the release of a lease without a claim", 0)
		c = turn(400*time.Millisecond, 2*time.Second)
		r.Answered(c, false)
		want("nobody was in the queue", 0)
		c = turn(400*time.Millisecond, 2*time.Second)
		r.Next("a")
		r.Answered(c, false)
		r.Next("a")
		want("nobody was in the queue, and another acquisition has followed", 0)
		turn(400*time.Millisecond, 2*time.Second)
		time.Sleep(politeFor)
		r.Next("a")
		want("a second later", 0)
	})
}

func TestTheLastTurnIsFromTheClaimToTheRelease(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r, terms := NewReleases(false), wire.NewTerms("a", time.Second)
		c := master.NewSentClaim(&terms, wire.ClaimOf{Token: "token", Grant: wire.GrantLeast, Made: time.Now()})
		time.Sleep(30 * time.Millisecond)
		for range 2 {
			r.Released(c, false)
			if got := r.Turnaround("a"); got != 30*time.Millisecond || r.Turnaround("b") != 0 {
				t.Errorf("turns of %v for a and %v for b, want 30ms and 0", got, r.Turnaround("b"))
			}
		}
		if r.PassedOn("a") {
			t.Error("the lock is said to be passed on before the release is answered")
		}
	})
}

// Whether the answer comes before or after the next release, so many acquisitions in a row do not wait.
func TestAfterManyAcquisitionsInARowTheNextWaitsForAnAnswer(t *testing.T) {
	for _, row := range []struct {
		name  string
		after func(r *Releases, last *master.SentClaim) // what happens after the last of followMost releases
		waits bool
	}{
		{"nothing", func(r *Releases, last *master.SentClaim) { r.Next("a") }, true},
		{"a second", func(r *Releases, last *master.SentClaim) { time.Sleep(politeFor); r.Next("a") }, false},
		{"the lock is passed on", func(r *Releases, last *master.SentClaim) { r.Answered(last, true); r.Next("a") }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				r, n := NewReleases(false), claims(0)
				last := n.next()
				r.Released(last, false)
				for range followMost {
					r.Next("a")
					r.Answered(last, false)
					last = n.next()
					r.Released(last, false)
				}
				row.after(r, last)
				r.Released(n.next(), false)
				r.Next("a")
				if waits := r.Awaited("a") != nil; waits != row.waits {
					t.Errorf("the next acquisition waits for the answer: %v, want %v", waits, row.waits)
				}
			})
		})
	}
}

func TestASecondAnswerToAReleaseChangesNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r, n := NewReleases(true), claims(0)
		c := n.next()
		r.Released(c, false)
		gap := r.Awaited("a")
		for range 2 {
			r.Answered(c, true) // it must not close the channel again
		}
		<-gap
	})
}
