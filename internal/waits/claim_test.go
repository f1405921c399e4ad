package waits

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// The lives may differ by more than an int of 32 bits can say in nanoseconds.
func TestAMajorityEndsWithItsEarliestVote(t *testing.T) {
	now := clock.System()
	in := New(3, noDrift).Begin("a")
	for _, long := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 7 * 24 * time.Hour} {
		c := &Claim{inbox: in, at: []atMaster{{vote: vote{mark: now, life: long, slots: theLock}}, {vote: vote{mark: now, life: 400 * time.Millisecond, slots: theLock}}, {}}}
		m := c.Count(now, 0).Won
		if m == nil || m.Left != 400*time.Millisecond {
			t.Errorf("votes for 400ms and %v: a quorum for %v, want 400ms", long, m.Left)
		}
	}
}

// A poll that finds the claim gone from the queue, and its key too, is answered while the lease is made.
func TestAVoteWhoseKeyIsGoneDoesNotCount(t *testing.T) {
	now := clock.System()
	gone := wire.Answer{Outcome: wire.Taken, New: true}
	for _, row := range []struct {
		name   string
		kind   wire.Kind
		answer wire.Answer
		from   int
		wins   bool
	}{
		{"a master of the quorum", wire.Again, gone, 0, false},
		{"the answer to the registration comes behind the message", wire.Register, gone, 0, true},
		{"the claim was still in the queue", wire.Again, wire.Answer{Outcome: wire.Taken}, 0, true},
		{"a master without a vote", wire.Again, gone, 2, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New(3, noDrift)
			in := s.Begin("a")
			c := in.NewClaim(new(master.SentClaim), now, 0, 0, 0)
			in.SetClaim(c)
			c.voteLocked(0, vote{mark: now, life: time.Second})
			c.voteLocked(1, vote{mark: now, life: time.Second})
			m := c.Count(now, 0).Won
			c.Answered(row.from, Command{Kind: row.kind, Mark: now, Life: time.Second}, row.answer, true)
			elsewhere, queued, got := c.Won(m, func(int) {}, nil)
			if elsewhere|queued != 0 {
				t.Errorf("a claim on a lock stands elsewhere at %b, and in the queue at %b", elsewhere, queued)
			}
			if got != row.wins {
				t.Errorf("the claim wins: %v, want %v", got, row.wins)
			}
			if m := c.Count(now, 0).Won; (m != nil) != row.wins {
				t.Errorf("a quorum is left: %v, want %v", m != nil, row.wins)
			}
		})
	}
}

// The messages about grants say which claim is the head of each queue now.
func TestALeaseNamesTheNextOfMostMasters(t *testing.T) {
	for _, row := range []struct {
		name   string
		heads  []string
		token  string
		differ bool
	}{
		{"nothing is known", []string{"", "", "", "", ""}, "", false},
		{"all agree", []string{"A", "A", "A", "A", "A"}, "A", false},
		{"all that have told agree", []string{"", "A", "A", "A", ""}, "A", false},
		{"one differs", []string{"B", "A", "A", "A", ""}, "A", true},
		{"two of each", []string{"B", "A", "A", "B", ""}, "B", true},
		{"each has another one", []string{"", "C", "B", "A", "D"}, "C", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New(5, noDrift)
			in := s.Begin("a")
			terms := wire.NewTerms("a", time.Second)
			c := in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "token"}), clock.System(), 400*time.Millisecond, 0, 0)
			in.SetClaim(c)
			for i, next := range row.heads {
				if next != "" {
					s.Granted(i, master.Grant{Key: "a", Token: "token", Next: next, Mark: clock.System(), Sure: true})
				}
			}
			for range 2 {
				if b := c.Successor(); b.Token != row.token || b.Differ != row.differ {
					t.Errorf("Successor = %+v, want %q, %t", b, row.token, row.differ)
				}
			}
		})
	}
}

// Only what a master is known to have had can be gone from there.
func TestAClaimIsInAQueueOnlyIfTheMasterCanTellItOfAGrant(t *testing.T) {
	now := clock.System()
	s := New(4, noDrift)
	in := s.Begin("a")
	c := in.NewClaim(new(master.SentClaim), now, 0, 0, 0)
	in.SetClaim(c)
	c.Answered(0, Command{Kind: wire.Register, Mark: now, Life: time.Second}, wire.Answer{Outcome: wire.Taken}, true)
	c.Answered(1, Command{Kind: wire.Register, Mark: now, Life: time.Second}, wire.Answer{Outcome: wire.Taken}, false)
	c.Answered(2, Command{Kind: wire.Register, Mark: now, Life: time.Second}, wire.Answer{Outcome: wire.Taken, New: true}, false)
	c.Answered(3, Command{Kind: wire.Register, Mark: now, Life: time.Second}, wire.Answer{Outcome: wire.Granted}, false)
	if had := mastersWhere(c, func(m *atMaster) bool { return m.had }); had != 0b1101 {
		t.Errorf("%b have had it, want 1101", had)
	}
}

func TestUnusedGrantsPutAClientBehindOthers(t *testing.T) {
	var s Unused
	now, waited := time.Unix(1000, 0), 9*time.Second
	want := func(when string, want time.Duration) {
		t.Helper()
		if got := s.Waited(now, waited); got != want {
			t.Errorf("%s: a claim counts as having waited for %v, want %v", when, got, want)
		}
	}
	want("no unused grant", waited)
	registered := now.Add(-time.Millisecond)
	s.Note(now, registered)
	want("one unused grant", -time.Second)
	for range 10 {
		s.Note(now.Add(time.Millisecond), registered)
	}
	want("unused grants of ten other names, of the same stop", -time.Second)
	now = now.Add(1500 * time.Millisecond)
	want("half a second after the time behind others", 500*time.Millisecond)
	s.Note(now, now)
	want("a second stop", -2*time.Second)
	for range 10 {
		now = now.Add(time.Millisecond)
		s.Note(now, now)
	}
	want("many stops", -8*time.Second)
	now = now.Add(17 * time.Second)
	want("9s after the time behind others", waited)
	s.Note(now, now)
	want("a stop after the Client has run for longer than it was behind", -time.Second)
}

// The client may have been far, or stopped. The poll says which of the two it was.
func TestAGrantThatIsOverOrSoonWhenItsMessageComesIsPolled(t *testing.T) {
	s := New(3, noDrift)
	in := s.Begin("a")
	terms := wire.NewTerms("a", time.Second)
	c := in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "token"}), clock.System(), 400*time.Millisecond, 0, 0)
	in.SetClaim(c)
	now := clock.System()
	time.Sleep(2 * time.Millisecond)
	for i, g := range []time.Duration{time.Millisecond, time.Hour, time.Millisecond} {
		c.G = g
		s.Granted(i, master.Grant{Key: "a", Token: "token", Mark: now, Sure: true})
	}
	select {
	case <-in.Poll:
	default:
		t.Error("no poll is due")
	}
	gone := wire.Answer{Outcome: wire.Taken, New: true}
	for i, want := range []int{1, 2, 3} {
		if got := c.Unused(); got != want-1 {
			t.Errorf("%d grants were in vain, want %d", got, want-1)
		}
		c.Answered(i, Command{Kind: wire.Again, Mark: clock.System(), Life: time.Second}, gone, true)
		if got := c.Unused(); got != want {
			t.Errorf("%d grants were in vain, want %d", got, want)
		}
	}
}

// A master that sends such grants again and again must not have all masters polled each time. Each row is a grant that a poll follows.
func TestGrantsThatDoNotCountWakeAWaitNowAndThen(t *testing.T) {
	for _, row := range []struct {
		name string
		sure bool
		age  time.Duration
	}{
		{"of an unknown memory", false, 0},
		{"over", true, time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				s := New(3, noDrift)
				in := s.Begin("a")
				c := claimOf(in, "mine")
				defer in.End()
				in.SetClaim(c)
				time.Sleep(row.age)
				mark := c.Began
				granted := func() { s.Granted(1, master.Grant{Key: "a", Token: "mine", Mark: mark, Sure: row.sure}) }
				// polls returns how often a poll is asked for within d, if it is granted the lock each 100 µs for flood.
				polls := func(flood, d time.Duration) (n int) {
					for at := time.Duration(0); at < d; at += 100 * time.Microsecond {
						if at < flood {
							granted()
						}
						select {
						case <-in.Poll:
							n++
						default:
						}
						time.Sleep(100 * time.Microsecond)
						synctest.Wait()
					}
					return n
				}
				if n := polls(time.Nanosecond, time.Millisecond); n != 1 {
					t.Errorf("the first grant wakes the wait %d times within 1 ms, want once", n)
				}
				if n := polls(time.Nanosecond, earlyEvery); n != 1 {
					t.Errorf("another one 1 ms later wakes it %d times within 10 ms, want once", n)
				}
				time.Sleep(time.Second)
				if n := polls(time.Second, time.Second+earlyEvery); n < 50 || n > 101 {
					t.Errorf("grants in a row wake it %d times in a second, want at most each 10 ms", n)
				}
			})
		})
	}
}

// A message about a slot names the token only. So the claims on slots are kept by their tokens, for as long as they can be granted some.
func TestClaimsOnSlotsAreKeptUntilTheyEnd(t *testing.T) {
	now := clock.System()
	terms := wire.NewSlotTerms("a", 8, 1, time.Minute)
	for _, row := range []struct {
		name string
		end  func(in *Inbox, c *Claim)
	}{
		{"it is given up", func(in *Inbox, _ *Claim) { in.SetClaim(nil) }},
		{"another one follows", func(in *Inbox, _ *Claim) { in.SetClaim(claimOf(in, "next")) }},
		{"it has won", func(in *Inbox, c *Claim) {
			q := c.Count(now, 0).Won
			c.Won(q, func(int) {}, func(int) {})
		}},
	} {
		s := New(3, noDrift)
		in := s.Begin("a")
		c := in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "T"}), now, time.Minute, 1, 8)
		in.SetClaim(c)
		c.voteLocked(0, vote{mark: now, life: time.Minute, slots: []int{5}})
		c.voteLocked(1, vote{mark: now, life: time.Minute, slots: []int{5}})
		c.voteLocked(1, vote{mark: now, life: time.Hour}) // for no slot
		if got := c.at[1].vote; got.life != time.Minute || len(got.slots) != 1 {
			t.Errorf("a vote for no slot counts: %+v", got)
		}
		if s.bySlots["T"] != in {
			t.Errorf("%s: before that, it is not found", row.name)
		}
		if row.end(in, c); len(s.bySlots) != 0 {
			t.Errorf("%s, and %d claims are kept", row.name, len(s.bySlots))
		}
	}
}

func TestAClaimIsFoundByTheKeyOfItsWait(t *testing.T) {
	s := New(3, noDrift)
	if c := s.ClaimFor("a"); c != nil {
		t.Errorf("nobody waits: %v", c)
	}
	in := s.Begin("a")
	c := claimOf(in, "mine")
	in.SetClaim(c)
	if got := s.ClaimFor("a"); got != c {
		t.Errorf("ClaimFor = %v, want the claim", got)
	}
	if !s.mu.TryLock() {
		t.Error("the mutex is locked")
	}
}
