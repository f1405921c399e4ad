package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// queueStep is the average sleep of a client that is in the queue of a quorum of masters. It will be
	// woken, and tries again only because the message may be lost. Many clients that try every few
	// milliseconds would slow down the holder that they wait for.
	queueStep = 100 * time.Millisecond
	// freeJitter is the least time over which the attempts at the expiry of a key are spread.
	freeJitter = 5 * time.Millisecond
	// splitsMost limits how often the time over which attempts are spread is doubled, after several splits in a row.
	splitsMost = 3
)

// pause sleeps until the next attempt is due. It reports whether a wake-up has ended the sleep. If more is
// false, the schedule has stopped, and there was no sleep.
//
// After a split vote nobody has the lock. Then the schedule begins anew, and a random part of one round trip
// is added to its delay, or of 2, 4 or 8 after further splits: clients that sleep for the same time split the
// votes again. If no master has granted the attempt, somebody holds the lock, and the sleep is longer if we
// expect to be woken. A grant that comes after the refusals which decided the attempt makes it a split vote,
// too.
func (w *wait) pause(ctx context.Context) (woken, more bool) {
	c := w.locker.client
	d, more := w.delays.next()
	if !more {
		return false, false
	}
	c.notePause(d)
	extra := rand.N(c.group.Distance()<<min(w.splits, splitsMost) + 1)
	if !w.split() {
		step := d
		if errors.Is(w.last, ErrHeld) && c.listening() {
			step = max(step, queueStep/2+rand.N(queueStep))
		}
		step = w.notPast(step)
		extra = min(extra, step)
		if w.sleep(ctx, extra) {
			return true, true
		}
		if !w.split() {
			w.splits = 0
			return w.sleep(ctx, step-extra), true
		}
		extra = 0 // it is over
	}
	if w.splits++; w.splits == 1 {
		w.delays.reset()
		if d, more = w.delays.next(); !more {
			return false, false
		}
	}
	return w.sleep(ctx, w.notPast(d+extra)), true
}

// notPast shortens a sleep to end when an attempt will find the keys of a quorum of masters expired, if
// nobody renews them. It adds up to half a round trip, so that not all clients try at the same moment. It does not
// shorten a sleep beside readers whose key may stand for a turn of readers: see turnMost.
func (w *wait) notPast(d time.Duration) time.Duration {
	left, known := freeAfter(w.round.Votes())
	if !known || left < turnMost && (w.locker.writes || w.byReaders()) {
		return d
	}
	// Each master has told how long its key lived when the last attempt arrived. The next attempt takes
	// as long to arrive. So it finds the key expired if it is made that much later.
	c := w.locker.client
	left = max(left-c.clock().Since(w.asked), 0)
	if left >= d {
		return d
	}
	return left + time.Millisecond + rand.N(max(freeJitter, c.group.Distance()/2))
}

// sleep waits for d, the end of ctx or the Client, or for wake. It reports whether wake ended it.
func (c *Client) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) (woken bool) {
	if d <= 0 {
		select {
		case <-wake:
			return true
		default:
			return false
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-wake:
		return true
	case <-t.C:
	case <-ctx.Done():
	case <-c.closing:
	}
	return false
}

// sleep is Client.sleep, which a wake-up ends. With the default schedule, the attempts ask for the owner often
// enough. During a longer sleep, sleep asks, too.
func (w *wait) sleep(ctx context.Context, d time.Duration) (woken bool) {
	c := w.locker.client
	for step := ownerAfter; d > 2*ownerAfter; step = ownerEvery {
		step = min(step, d)
		if c.sleep(ctx, step, w.sleeper.wake) {
			return true
		} else if ctx.Err() != nil || c.isClosing() {
			return false
		}
		w.askOwner()
		d -= step
	}
	return c.sleep(ctx, d, w.sleeper.wake)
}
