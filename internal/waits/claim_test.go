package waits

import (
	"errors"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

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

// sure and unsure are master.Grant.Sure.
func sure(clock.Reading) bool   { return true }
func unsure(clock.Reading) bool { return false }

func TestAGrantIsAVoteForItsClaimOnly(t *testing.T) {
	before := clock.System()
	time.Sleep(2 * time.Millisecond)
	after := func() clock.Reading { return clock.System() }
	for _, row := range []struct {
		name     string
		g        master.Grant
		noClaim  bool
		ended    bool
		expected bool // this Client has queued for the key
		votes    bool
		poll     bool
	}{
		{name: "its own", g: master.Grant{Key: "a", Token: "mine", Mark: after(), Sure: sure, Fence: 70}, expected: true, votes: true},
		{name: "from before the claim", g: master.Grant{Key: "a", Token: "mine", Mark: before, Sure: sure, Fence: 70}, expected: true, votes: true},
		{name: "of a memory that is not known", g: master.Grant{Key: "a", Token: "mine", Mark: after(), Sure: unsure}, expected: true, poll: true},
		{name: "for another claim", g: master.Grant{Key: "a", Token: "former", Mark: after(), Sure: sure}, expected: true},
		{name: "without a claim", g: master.Grant{Key: "a", Token: "mine", Mark: after(), Sure: sure}, noClaim: true, expected: true},
		{name: "for another key", g: master.Grant{Key: "b", Token: "mine", Mark: after(), Sure: sure}},
		{name: "for a wait that has ended", g: master.Grant{Key: "a", Token: "mine", Mark: after(), Sure: sure}, ended: true, expected: true},
		{name: "for slots of a claim that is not known", g: master.Grant{Key: "a", Token: "mine", Slots: "1", Mark: after(), Sure: sure}, expected: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New(3, noDrift)
			in := s.Begin("a")
			c := claimOf(in, "mine")
			c.G = time.Hour
			if !row.noClaim {
				in.SetClaim(c)
			}
			if row.ended {
				in.End()
			}
			since, says := clock.Reading{}, row.g.Sure
			row.g.Sure = func(at clock.Reading) bool {
				since = at
				return says(at)
			}
			if got := s.Granted(1, row.g); got != row.expected {
				t.Errorf("the grant was expected: %v, want %v", got, row.expected)
			}
			told, polls := false, false
			select {
			case <-in.News:
				told = true
			default:
			}
			select {
			case <-in.Poll:
				polls = true
			default:
			}
			v := c.at[1].vote
			if told != row.votes || (v.life > 0) != row.votes || polls != row.poll {
				t.Errorf("the vote is %+v, told %v, a poll is due: %v; want a vote: %v, a poll: %v", v, told, polls, row.votes, row.poll)
			}
			want := row.g.Mark
			if c.Began.Time().After(want.Time()) {
				want = c.Began
			}
			if (row.votes || row.poll) && since != want {
				t.Errorf("the master was asked about a grant after %v, want %v", since, want)
			}
			if row.votes && (v.mark != want || v.fence != 70) {
				t.Errorf("the vote is %+v, want one that counts from no time before the claim, with the fence 70", v)
			}
		})
	}
}

// The client may have been far, or stopped. The poll says which of the two it was.
func TestAGrantThatIsOverOrSoonWhenItsMessageComesIsPolled(t *testing.T) {
	s := New(3, noDrift)
	in := s.Begin("a")
	c := claimOf(in, "token")
	in.SetClaim(c)
	now := clock.System()
	time.Sleep(2 * time.Millisecond)
	for i, g := range []time.Duration{time.Millisecond, time.Hour, time.Millisecond} {
		c.G = g
		s.Granted(i, master.Grant{Key: "a", Token: "token", Mark: now, Sure: sure})
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

func TestOfTwoVotesOfAMasterTheOneThatEndsLaterCounts(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		early := clock.System()
		time.Sleep(100 * time.Millisecond)
		late := clock.System()
		for _, row := range []struct {
			name          string
			first, second vote
			want          vote
		}{
			{"the first", vote{mark: early, life: time.Second, fence: 70}, vote{mark: late, life: 400 * time.Millisecond, fence: 71}, vote{mark: early, life: time.Second, fence: 71}},
			{"the second", vote{mark: early, life: time.Second, fence: 72}, vote{mark: late, life: time.Second, fence: 71}, vote{mark: late, life: time.Second, fence: 72}},
			{"only one", vote{fence: 70}, vote{mark: early, life: time.Second}, vote{mark: early, life: time.Second, fence: 70}},
		} {
			in := New(3, noDrift).Begin("a")
			c := claimOf(in, "mine")
			in.SetClaim(c)
			c.voteLocked(1, row.first)
			began := c.firstVote
			time.Sleep(time.Millisecond)
			c.voteLocked(1, row.second)
			if got := c.at[1].vote; got.mark != row.want.mark || got.life != row.want.life || got.fence != row.want.fence {
				t.Errorf("%s: the vote is %+v, want %+v", row.name, got, row.want)
			}
			if had := mastersWhere(c, func(m *atMaster) bool { return m.had }); began.IsZero() || c.firstVote != began || had != 0b010 {
				t.Errorf("%s: the first vote was at %v, then at %v, of masters %b", row.name, began, c.firstVote, had)
			}
		}
	})
}

func TestAnAnswerToACommandOfAClaimIsAVote(t *testing.T) {
	const far = wire.Near
	for _, row := range []struct {
		name   string
		kind   wire.Kind
		answer wire.Answer
		life   time.Duration // of the vote; 0: none
		queued bool
	}{
		{"granted", wire.Register, wire.Answer{Outcome: wire.Granted}, time.Second, false},
		{"granted before", wire.Again, wire.Answer{Outcome: wire.Granted, Holds: 300 * time.Millisecond}, 300 * time.Millisecond, false},
		{"refused", wire.Register, wire.Answer{Outcome: wire.Taken, Holds: time.Hour}, 0, true},
		{"refused behind several", wire.Register, wire.Answer{Outcome: wire.Taken, Ahead: far}, 0, true},
		{"a poll behind several", wire.Again, wire.Answer{Outcome: wire.Taken, Ahead: far}, 0, true},
		{"granted before several", wire.Register, wire.Answer{Outcome: wire.Granted, Ahead: far}, time.Second, false},
		{"failed", wire.Register, wire.Answer{Err: errors.New("lost")}, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := New(3, noDrift).Begin("a")
			c := claimOf(in, "mine")
			in.SetClaim(c)
			for i := range 2 {
				near, news := c.Answered(i, Command{Kind: row.kind, Mark: c.Began, Life: time.Second}, row.answer, true)
				want := uint64(0)
				if row.queued && row.answer.Ahead < wire.Near {
					want = 1 << i
				}
				if near != want {
					t.Errorf("the claim has become near at %b, want %b", near, want)
				}
				if want := near != 0 || row.life > 0; news != want {
					t.Errorf("the answer is news: %v, want %v", news, want)
				}
			}
			queued := mastersWhere(c, func(m *atMaster) bool { return m.queued })
			if v := c.at[1].vote; v.life != row.life || (queued == 0b011) != row.queued {
				t.Errorf("the vote is %+v, queued %b; want a life of %v, %v", v, queued, row.life, row.queued)
			}
			c.Answered(1, Command{Kind: wire.Again, Mark: c.Began, Life: time.Second}, wire.Answer{Err: errors.New("lost")}, true)
			if c.at[1].queued {
				t.Error("the claim is said to be in a queue although the last answer was lost")
			}
			if c.refused != row.queued {
				t.Errorf("a master has refused the claim: %v, want %v, whatever others answer later", c.refused, row.queued)
			}
			former := claimOf(in, "former") // which the wait has given up
			former.Answered(1, Command{Kind: row.kind, Mark: c.Began, Life: time.Second}, row.answer, true)
			if had := former.at[1].had; had != (row.answer.Err == nil) {
				t.Errorf("a master has had a claim that was given up: %v", had)
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
	for i := range 4 {
		c.Answered(i, Command{Kind: wire.Again, Mark: now}, wire.Answer{Err: errTest}, true)
	}
	if had := mastersWhere(c, func(m *atMaster) bool { return m.had }); had != 0b1101 {
		t.Errorf("after lost polls, %b have had it, want 1101", had)
	}
}

// Once the claim has become a lease, a late poll may show that a master had lost the key: see Answered.
func TestALatePollOfALeaseCausesADoubt(t *testing.T) {
	gone, lost := wire.Answer{Outcome: wire.Taken, New: true}, wire.Answer{Err: errors.New("lost")}
	for _, row := range []struct {
		name   string
		kind   wire.Kind
		from   int // master 2 has never had the claim
		answer wire.Answer
		want   bool
	}{
		{"a key that is gone", wire.Again, 0, gone, true},
		{"an answer that was lost", wire.Again, 0, lost, true},
		{"a key that is there", wire.Again, 0, wire.Answer{Outcome: wire.Granted, Holds: time.Second}, false},
		{"a registration", wire.Register, 0, gone, false},
		{"a registration whose answer was lost", wire.Register, 0, lost, false},
		{"a renewal whose answer was lost", wire.Renew, 0, lost, false},
		{"a master that has never had the claim", wire.Again, 2, gone, false},
		{"the lost answer of a master that has never had the claim", wire.Again, 2, lost, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New(3, noDrift)
			in := s.Begin("a")
			c := claimOf(in, "mine")
			in.SetClaim(c)
			for i := range 2 {
				c.Answered(i, Command{Kind: wire.Register, Mark: c.Began, Life: time.Second}, wire.Answer{Outcome: wire.Granted}, true)
			}
			won := c.Count(clock.System(), 0).Won
			doubted := -1
			if won == nil {
				t.Fatal("there is no quorum")
			}
			if _, _, ok := c.Won(won, func(i int) { doubted = i }, nil); !ok {
				t.Fatal("the claim does not win")
			}
			s.Granted(0, master.Grant{Key: "a", Token: "mine", Mark: clock.System(), Sure: sure, Fence: 99})
			if c.at[0].vote.fence == 99 {
				t.Error("a lease is granted the lock")
			}
			c.Answered(row.from, Command{Kind: row.kind, Mark: clock.System(), Life: time.Second}, row.answer, true)
			if row.want && doubted != row.from || !row.want && doubted != -1 {
				t.Errorf("a doubt about master %d, want one: %v", doubted, row.want)
			}
			given := claimOf(in, "given up") // it has no lease
			for i := range given.at {
				given.at[i].had = true
			}
			given.Answered(row.from, Command{Kind: row.kind, Mark: clock.System(), Life: time.Second}, row.answer, true)
		})
	}
}

func TestAWaitIsToldWhenAnAnswerIsCounted(t *testing.T) {
	in := New(3, noDrift).Begin("a")
	claimOf(in, "mine").Counted()
	select {
	case <-in.News:
	default:
		t.Error("it is not told")
	}
}

// A claim whose places are not known may be the head, so it polls as the head does.
func TestAnAnswerByWhichAPlaceIsKnownNoMoreIsNews(t *testing.T) {
	in := New(3, noDrift).Begin("a")
	c := claimOf(in, "mine")
	in.SetClaim(c)
	for _, row := range []struct {
		name      string
		listening bool
		news      bool
	}{{"its place becomes known", true, false}, {"it stays the same", true, false}, {"nobody could tell of a grant", false, true}, {"nor later", false, false}} {
		_, news := c.Answered(1, Command{Kind: wire.Again, Mark: c.Began, Life: time.Second, One: true}, wire.Answer{Outcome: wire.Taken, Ahead: 50, Standing: "other"}, row.listening)
		if news != row.news {
			t.Errorf("%s: news: %v, want %v", row.name, news, row.news)
		}
	}
}

// A vote that is neither the first one nor that of a quorum changes nothing.
func TestAWaitIsToldOfTheFirstVoteAndOfAQuorum(t *testing.T) {
	s := New(7, noDrift)
	in := s.Begin("a")
	c := claimOf(in, "mine")
	c.G = time.Hour
	in.SetClaim(c)
	for i, want := range []bool{true, false, false, true, true} {
		s.Granted(i, master.Grant{Key: "a", Token: "mine", Mark: clock.System(), Sure: sure})
		told := false
		select {
		case <-in.News:
			told = true
		default:
		}
		if told != want {
			t.Errorf("told of vote %d: %v, want %v", i+1, told, want)
		}
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
			c := claimOf(in, "token")
			in.SetClaim(c)
			for i, next := range row.heads {
				if next != "" {
					s.Granted(i, master.Grant{Key: "a", Token: "token", Next: next, Mark: clock.System(), Sure: sure})
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

func TestAMasterIsSettledWhenNothingMoreSetsTheToken(t *testing.T) {
	register, poll := wire.Register, wire.Again
	type answer struct {
		kind wire.Kind
		wire.Answer
	}
	taken, granted := wire.Answer{Outcome: wire.Taken, New: true}, wire.Answer{Outcome: wire.Granted, Holds: 1}
	for _, row := range []struct {
		name    string
		sent    int // registrations and polls
		answers []answer
		want    bool
	}{
		{"the registration was answered", 1, []answer{{register, taken}}, true},
		{"it was not", 1, nil, false},
		{"the registration and a poll were", 2, []answer{{register, taken}, {poll, granted}}, true},
		{"a poll was not", 2, []answer{{register, taken}}, false},
		{"renewals do not count", 1, []answer{{register, taken}, {wire.Renew, granted}}, true},
		{"a poll was lost, and the next one was answered", 3, []answer{{register, taken}, {poll, wire.Answer{Err: errors.New("lost")}}, {poll, granted}}, false},
		{"a poll was lost", 2, []answer{{register, taken}, {poll, wire.Answer{Err: errors.New("lost")}}}, false},
		{"a poll did not find the claim", 2, []answer{{register, taken}, {poll, taken}}, false},
		{"a poll set the key", 2, []answer{{register, taken}, {poll, wire.Answer{Outcome: wire.Granted, New: true}}}, false},
	} {
		for _, won := range []bool{false, true} { // before the last answer
			s := New(1, noDrift)
			_, c := flying(s)
			for range row.sent {
				c.Sent()
			}
			for i, a := range row.answers {
				if won && i == len(row.answers)-1 {
					c.Won(&Quorum{}, func(int) {}, nil)
				}
				c.Answered(0, Command{Kind: a.kind, Mark: c.Began, Life: wire.GrantLeast}, a.Answer, true)
			}
			if got := c.Settled()&1 == 1; got != row.want {
				t.Errorf("%s, won %v: settled %v, want %v", row.name, won, got, row.want)
			}
			if c.SentOne(0); c.Settled() != 0 {
				t.Errorf("%s, won %v: settled, although another poll was sent", row.name, won)
			}
		}
	}
}

// What polls of one master find is told once. A master that fails has found nothing.
func TestAPollOfOneMasterFindsTheKeyFree(t *testing.T) {
	p := newPlaced(t)
	polled := func(one bool, want uint64) {
		t.Helper()
		for i, a := range []wire.Answer{
			{Outcome: wire.Taken, Standing: "holder"},
			{Outcome: wire.Taken},
			{Err: errTest},
			{Outcome: wire.Granted, Holds: time.Second},
			{Outcome: wire.Taken, Standing: wire.ReadersMarker},
		} {
			p.c.Answered(i, Command{Kind: wire.Again, Mark: clock.System(), Life: time.Second, One: one}, a, true)
		}
		if got := p.c.FoundFree(); got != want {
			t.Errorf("the key is free at the masters %b, want %b", got, want)
		}
	}
	polled(false, 0) // the round has said so
	polled(true, 1<<1)
	if got := p.c.FoundFree(); got != 0 {
		t.Errorf("asked again, the key is free at the masters %b, want none", got)
	}
	for i, want := range []string{"holder", "", "", "", wire.ReadersMarker} {
		if v := p.c.Standing()[i]; v.Standing != want || v.Readers != (want == wire.ReadersMarker) {
			t.Errorf("master %d holds %q, readers %v; want %q", i, v.Standing, v.Readers, want)
		}
	}
}
