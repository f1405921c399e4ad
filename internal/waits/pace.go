package waits

import (
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// Step is how long a client that is in the queues pauses on average. It will be told when its turn comes, and tries again only because
// the message may be lost. Many clients that try every few milliseconds would slow down the holder that they wait for.
const Step = 100 * time.Millisecond

// The pauses between the polls of a claim, in steps: those of a claim whose average pause is Pace.step.
const (
	behindSteps = 3   // near, but not the head: it becomes the head by a grant to the claim ahead of it. It is short beside the patience of the Client
	nearSteps   = 5   // near, but not one of the first wire.Near, at most: on slots, or of a reader
	farMost     = 100 // far, at most, until it polls the same master again: on slots, or with a hundred ahead or fewer
	crowdMost   = 200 // the same with more ahead: see FarPolls
	returnMost  = 8   // far, when a master comes up, at most: its queue is whole within a second

	// Before the first poll of a claim that is far:
	farFirst  = 10 // a grant to another client at the time of the registration has ended by then, or ends soon
	soonFirst = 2  // at least, if it may become near and not be told: see untold
	lateFirst = 40 // at most: after a quarter more, wire.PollsWithin, it would be taken for that of a stopped client
)

// When a claim with votes asks who has the other keys:
const (
	SplitAfter      = 2 * time.Millisecond // how long after its first vote, in addition to a round trip
	slowMost        = 8 * time.Millisecond // how long at most if masters or clients are busy, so that votes are late: longer pauses make splits last longer
	splitRoundsMost = 8                    // how many rounds in a row may find the votes split; with each further one, the time doubles, up to Step
	splitRoundsFor  = time.Second          // after how long such a round no longer counts
)

// A Pace says when the claims of a wait are sent again: when the next poll is due, and when a claim with votes asks who has the other
// keys. It is used by the goroutine that waits: Registered for each claim; for each round Sent, then Pause or PollAfter when it is over, then
// Next until a round is due.
//
// notPast, an argument of Next and Pause, returns a pause, or a shorter one that ends when the key is due to expire.
type Pace struct {
	group *quorum.Group
	step  time.Duration // the average pause of the head

	Far   bool // wire.Near others or more were ahead of the claim when it was last looked at, and masters will tell it when it is near
	One   bool // the next poll is one of a single master
	Split bool // of a claim on slots: no slot can have a quorum by further votes
	Again bool // of a claim on slots: a question has found it beaten. From then on it does not wait for votes that are late

	poll       time.Time     // when the next poll is due
	turnaround time.Duration // see Registered
	askAt      time.Time     // when to ask who has the other keys; zero: the claim has no vote, or they were asked

	splits    int       // how many rounds in a row have found the votes split: a key that no claim will release may keep them so
	lastSplit time.Time // when the last of them did
}

// NewPace returns the Pace of a wait. The head of a queue pauses for step on average.
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

// Pause sets when the next poll is due, after a round. first says that the round was the registration.
func (p *Pace) Pause(c *Claim, now clock.Reading, first bool, notPast func(time.Duration) time.Duration) {
	ahead := c.Ahead()
	p.One = false
	if p.Far = ahead >= wire.Near && p.group.Listening(); !p.Far {
		step := p.step
		if c.slots == 0 && ahead > 0 {
			step *= behindSteps
		}
		p.poll = now.Time().Add(notPast(step/2 + rand.N(step)))
		return
	}
	near := ahead < c.places.front // it polls when a slot, or the key, is due to expire, too: see hurry
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

// soonAhead is behind how many others a claim may be untold if it is not known how long turns take. Behind more, it comes near that soon only if
// many clients leave at once, and learns it from its first poll.
const soonAhead = 75

// untold reports whether the claim may come near the head while masters send it no Near message: see wire.YoungFor. It has just registered, with so
// many others ahead. It has to poll soon, in case the message about a grant is lost.
func (p *Pace) untold(c *Claim, ahead int) bool {
	if p.turnaround == 0 {
		return ahead <= soonAhead
	}
	turn := p.turnaround / time.Duration(ahead+1) // the last turn of the Client took as long as those of all others ahead and its own
	return turn*time.Duration(ahead+1-c.places.front) < wire.YoungFor(c.G)
}

// Next decides when the next round is due. A claim with votes asks who has the other keys, any other claim polls. voted says that the claim has
// votes that last.
func (p *Pace) Next(c *Claim, now clock.Reading, voted bool, notPast func(time.Duration) time.Duration) time.Time {
	if p.Far {
		p.hurry(c, now, notPast)
	}
	switch {
	case !voted:
		p.askAt = time.Time{}
	case c.slots > 0 && !p.Split && c.Split(now):
		p.Split, p.askAt = true, now.Time()
	case p.askAt.IsZero():
		p.askAt = now.Time().Add(p.splitDelay(now))
	}
	if p.askAt.IsZero() {
		return p.poll
	}
	return p.askAt
}

// hurry has a claim that was far poll earlier, if there is a reason since:
//
//   - It is one of the first wire.Near: it polls within a step, and is not far any more.
//   - It is near: it polls when a slot, or the key, is due to expire. If it was passed over, it polls within a step.
//   - A master has come up: it polls all masters within returnMost steps.
func (p *Pace) hurry(c *Claim, now clock.Reading, notPast func(time.Duration) time.Duration) {
	switch ahead := c.Ahead(); {
	case ahead < wire.Near:
		p.Far, p.One = false, false
		p.within(rand.N(p.step), now)
	case ahead < c.places.front:
		p.within(notPast(nearSteps*p.step), now)
		if take(c.inbox.waits, &c.passed) {
			p.within(rand.N(p.step), now)
		}
	case take(c.inbox.waits, &c.returned):
		p.One = false
		p.within(rand.N(returnMost*p.step), now)
	}
}

// within has the next poll due after d at the latest.
func (p *Pace) within(d time.Duration, now clock.Reading) {
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

// FarPolls returns how long it takes on average until a claim that is far polls a master again; step is the pause of the head. The pause
// grows with the number of clients ahead: these have to be lost first. So all far clients of a queue together send few polls. Such a
// claim polls one master at a time, in turn. Example: of five masters, one that has 99 ahead polls each after 10 s, and so one of them after
// 2 s. It finds within that time that nobody uses the lock, with as many commands as if it polled all masters after 10 s.
//
// The first poll is one of all masters. A poll of one master leaves a key alone that it finds free: the lock may be free, or the holder may
// lack the key at that master. A poll of all masters follows.
func FarPolls(step time.Duration, ahead, masters int) time.Duration {
	return time.Duration(farSteps(ahead, masters)) * step
}

// farSteps is FarPolls in steps.
func farSteps(ahead, masters int) int {
	return min(ahead*masters, max(farMost, ahead), crowdMost)
}
