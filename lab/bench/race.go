package main

import (
	"errors"
	"slices"
	"time"

	"github.com/redlock-go/redlock/lab/internal/child"
)

// freeLock is the workload of three processes that want a free lock at the same time. One is near to two
// masters, another to two others and the third to the fifth; all else is far. So each has the first votes
// of some masters, and none has a quorum's.
func freeLock(far time.Duration) func(*bench, *subject, int) (figures, error) {
	return func(b *bench, s *subject, rep int) (figures, error) {
		near := [][]int{{0, 1}, {2, 3}, {4}}
		workers, err := b.startWorkers(s, len(near), 1, ttl, func(i int) distances { return nearTo(far, near[i]...) })
		if err != nil {
			return nil, err
		}
		defer child.End(workers...)
		var took []float64
		for range b.plan.races {
			first, err := b.race(workers)
			if errors.Is(err, child.ErrSilent) {
				return figures{hung: 1}, nil
			}
			if err != nil {
				return nil, err
			}
			took = append(took, millis(first))
		}
		return figures{firstEntry: median(took), lastFirstEntry: slices.Max(took)}, nil
	}
}

// race has all workers lock a new name at the same time, and returns how long it took until one of them
// had it. It returns when all have had it.
func (b *bench) race(workers []*remote) (time.Duration, error) {
	b.opened++
	// The pause lets releases of the last name arrive.
	o := order{Op: opRace, Name: b.name(), Start: now() + int64(100*time.Millisecond)}
	for _, w := range workers {
		if err := w.Tell(o); err != nil {
			return 0, err
		}
	}
	first := time.Duration(0)
	for i, w := range workers {
		r, err := w.Answer(readyLimit)
		if err != nil {
			return 0, err
		}
		if took := time.Duration(r.At - o.Start); i == 0 || took < first {
			first = took
		}
	}
	return first, nil
}
