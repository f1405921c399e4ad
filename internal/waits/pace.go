package waits

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// Step is how long a client that is in the queues pauses on average. It will be told when its turn comes, and tries again only because
// the message may be lost. Many clients that try every few milliseconds would slow down the holder that they wait for.
const Step = 100 * time.Millisecond

const (
	// SplitAfter is how long after its first vote a claim asks who has the other keys, in addition to a round trip.
	SplitAfter = 2 * time.Millisecond
	// slowMost is for how long a claim waits for votes that are late since masters or clients are busy. Longer pauses make
	// splits last longer.
	slowMost = 8 * time.Millisecond
	// splitRoundsMost is how many rounds in a row may find the votes split before the time between such rounds is
	// doubled. It is then doubled with each further one, up to Step: a key that no claim will release may keep
	// the votes split.
	splitRoundsMost = 8
	// splitRoundsFor is after how long such a round no longer counts.
	splitRoundsFor = time.Second

	// The pauses between the polls of a claim, as multiples of that of a near one:

	// farFirst is the pause of a far claim before its first poll. If another client had been granted the lock when the claim registered,
	// that grant has ended or ends soon.
	farFirst = 10
	// soonFirst is the shortest pause before the first poll of a claim that may become near while its registration is a young mark: see untold. Any
	// other claim becomes near that soon only if many clients leave at once, and learns it from its first poll.
	soonFirst = 2
	// lateFirst is the longest pause before the first poll. After a quarter more, wire.PollsWithin, a claim that has not polled is taken
	// for that of a stopped client.
	lateFirst = 40
	// returnMost is that of a far claim when a master comes up, at most: its queue is whole within a second.
	returnMost = 8
	// farMost is the longest time until a far claim polls a master again. With a hundred clients ahead, or fewer, it is farCrowd: see
	// FarPolls.
	farMost, farCrowd = 100, 60
	// behindSteps is that of a claim that is near, but not the head: it becomes the head by a grant to the claim ahead of it.
	behindSteps = 2
	// followSteps is that of a claim that is near, but not at a quorum of masters: others watch the keys, too. It is short beside the
	// patience of the Client.
	followSteps = 3
	// nearSteps is the longest of a claim that is near, but not one of the first three: on slots, or of a reader.
	nearSteps = 5
)

// soonAhead is behind how many others a claim may become near while its registration is a young mark, if it is not known how long turns take.
const soonAhead = 75

// untold reports whether a claim that has just registered, with so many others ahead, may become near while its registration is a young mark of a grant.
// Masters do not tell the claim that, so it has to poll, in case the message about the grant is lost.
func (p *Pace) untold(c *Claim, ahead int) bool {
	if p.turnaround == 0 {
		return ahead <= soonAhead
	}
	// The last turn of the Client took as long as those of all others ahead and its own.
	return p.turnaround/time.Duration(ahead+1)*time.Duration(ahead+1-c.Near) < wire.YoungFor(c.G)
}

// A Pace says when the claims of a wait are sent again: when the next poll is due, and when a claim with votes asks who has the other
// keys. It is used by the goroutine that waits, which uses the exported fields. notPast, an argument of Due and Pause, returns a pause, or a
// shorter one that ends when the key is due to expire.
type Pace struct {
	group *quorum.Group
	step  time.Duration // the average pause of a near claim

	Far   bool // the claim was far after its last round
	One   bool // the next poll is one of a single master
	Split bool // of a claim on slots: no slot can have a quorum by further votes
	Again bool // of a claim on slots: a question has found it beaten. From then on it does not wait for votes that are late

	poll       time.Time     // when the next poll is due
	turnaround time.Duration // see Registered
	askAt      time.Time     // when to ask who has the other keys; zero: the claim has no vote, or they were asked

	splits    int       // how many rounds in a row have found the votes split
	lastSplit time.Time // when the last of them did
}

// NewPace returns the Pace of a wait, whose near claims pause for step on average.
func NewPace(group *quorum.Group, step time.Duration) *Pace {
	return &Pace{group: group, step: step}
}

// Registered says that a new claim is registered. turnaround is how long the last turn of this Client took, from its claim to the release; 0: it
// has had none lately.
func (p *Pace) Registered(turnaround time.Duration) {
	p.Split, p.Again, p.turnaround = false, false, turnaround
}

// Sent says that the claim is sent.
func (p *Pace) Sent() { p.askAt = time.Time{} }

// FoundSplit says that a round has found the votes split.
func (p *Pace) FoundSplit(now time.Time) { p.splits, p.lastSplit = p.splits+1, now }

// Due returns when the next round is due. A claim with votes asks who has the other keys, any other claim polls. One that was
// far, and has become near, polls soon. One that is far when a master comes up polls within a second.
func (p *Pace) Due(c *Claim, now clock.Reading, voted bool, notPast func(time.Duration) time.Duration) time.Time {
	if p.Far {
		if ahead := c.Ahead(); ahead < wire.Near {
			p.Far, p.One = false, false
			p.soon(now, rand.N(p.step))
		} else if ahead < c.Near {
			p.soon(now, notPast(nearSteps*p.step))
			if c.PassedOver() {
				p.soon(now, rand.N(p.step))
			}
		} else if c.Returned() {
			p.One = false
			p.soon(now, rand.N(returnMost*p.step))
		}
	}
	switch {
	case !voted:
		p.askAt = time.Time{}
	case c.OfSlots() && !p.Split && c.Split(now):
		p.Split, p.askAt = true, now.Time()
	case p.askAt.IsZero():
		p.askAt = now.Time().Add(p.splitDelay(now))
	}
	if p.askAt.IsZero() {
		return p.poll
	}
	return p.askAt
}

// soon has the next poll due after d at the latest.
func (p *Pace) soon(now clock.Reading, d time.Duration) {
	if at := now.Time().Add(d); at.Before(p.poll) {
		p.poll = at
	}
}

// splitDelay returns how long after a vote, or after a question, to ask who has the other keys. It forgets rounds that found the votes split if
// the last of them was long ago.
func (p *Pace) splitDelay(now clock.Reading) time.Duration {
	if now.Time().Sub(p.lastSplit) > splitRoundsFor {
		p.splits = 0
	}
	distance := p.group.Distance()
	if p.Again {
		return distance // the first question has waited for votes that are late: the second one makes sure of its answers
	}
	slow := min(p.group.Late().Truncate(time.Microsecond), slowMost) // the other votes may only be late
	d := max(SplitAfter+distance, slow) + rand.N(distance/2+1)
	for n := splitRoundsMost; n < p.splits && d < Step; n++ {
		d *= 2
	}
	return d
}

// Pause sets when the next poll is due, after a round. first says that the round was the registration.
func (p *Pace) Pause(c *Claim, now clock.Reading, first bool, notPast func(time.Duration) time.Duration) {
	ahead := c.Ahead()
	p.One = false
	if p.Far = ahead >= wire.Near && p.group.Listening(); !p.Far {
		step := p.step
		switch {
		case c.OfSlots():
		case !c.NearAtQuorum():
			step *= followSteps
		case ahead > 0:
			step *= behindSteps
		}
		p.poll = now.Time().Add(notPast(step/2 + rand.N(step)))
		return
	}
	near := ahead < c.Near // it polls when a slot, or the key, is due to expire, too: see Due
	if near {
		ahead = min(ahead, nearSteps)
	}
	d := time.Duration(min(ahead, farMost)) * p.step
	switch masters := len(c.at); {
	case !near && first:
		d = p.firstPoll(c, ahead)
	case !near && c.slots == 0:
		p.One = true
		d = FarPolls(p.step, ahead, masters) / time.Duration(masters)
	}
	p.poll = now.Time().Add(d*3/4 + rand.N(d/2))
}

// PollAfter has the next poll due after d.
func (p *Pace) PollAfter(now clock.Reading, d time.Duration) { p.poll = now.Time().Add(d) }

// firstPoll returns how long after its registration a claim that is far polls for the first time, on average. A Client that takes turns is likely to have
// the lock again after as long as the last time, so its claim polls after that. Of permits, no turnaround is known.
func (p *Pace) firstPoll(c *Claim, ahead int) time.Duration {
	d := max(farFirst*p.step, 2*p.turnaround)
	if soon := soonFirst * p.step; p.untold(c, ahead) {
		d = max(soon, p.turnaround+min(p.turnaround, soon))
	}
	return min(d, lateFirst*p.step)
}

// FarPolls returns how long it takes on average until a claim that is far polls a master again; step is the pause of a near one. The pause
// grows with the number of clients ahead: these have to be lost first. So all far clients of a queue together send few polls. Such a
// claim polls one master at a time, in turn. Example: of five masters, one that has 99 ahead polls each after 6 s, and so one of them after
// 1.2 s. It finds within that time that nobody uses the lock, with as many commands as if it polled all masters after 6 s.
//
// The first poll is one of all masters. A poll of one master leaves a key alone that it finds free: the lock may be free, or the holder may
// lack the key at that master. A poll of all masters follows.
func FarPolls(step time.Duration, ahead, masters int) time.Duration {
	return time.Duration(farSteps(ahead, masters)) * step
}

// farSteps is FarPolls in pauses of a near claim.
func farSteps(ahead, masters int) int {
	return min(ahead*masters, max(farCrowd, ahead*farCrowd/farMost), farMost)
}

// FreeAfter returns the time after which the keys of a quorum of masters will have expired, if nobody renews
// them. It uses the answers of the masters that refused, and reports false if those do not suffice.
func FreeAfter(votes []quorum.Vote) (time.Duration, bool) {
	var lefts []time.Duration
	for _, v := range votes {
		if v.Granted() {
			lefts = append(lefts, 0)
		} else if v.Outcome == wire.Taken && v.Left != wire.Unknown {
			lefts = append(lefts, v.Left)
		}
	}
	need := quorum.Majority(len(votes))
	if len(lefts) < need {
		return 0, false
	}
	slices.Sort(lefts)
	return lefts[need-1], true
}

const (
	// roundLeast is how long a poll may take at least, beside its pause.
	roundLeast = 20 * time.Millisecond
	// patienceSteps is how many polls of a claim must fail to come before its client is taken for one that is stopped.
	patienceSteps = 5
)

// Patience returns how long it takes at most until a claim of this Client that is near is sent again, and how much longer if
// none is. A round lasts until a quorum of masters has answered, and a little longer.
func (s *Waits) Patience(group *quorum.Group, step time.Duration) (near, far time.Duration) {
	if n := s.Soonest(); n >= wire.Near {
		far = time.Duration(n) * step * 5 / 4
	}
	return patienceSteps*step + max(roundLeast, 3*group.Distance(), group.RoundTrip()), far
}
