package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/lab/internal/child"
)

// A session is a subject that is open in a process of its own, with its callers.
type session struct {
	worker *remote
	fleet  *fleet
	bound  time.Duration
}

// open opens a subject for callers of their own names, or of new names, and has them
// lock for a while so that connections and scripts are there.
func (b *bench) open(s *subject, f *fleet, c calls) (*session, error) {
	all, err := b.openAll([]*subject{s}, func(*subject) *fleet { return f }, c)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// openAll opens several subjects, which warm up at the same time.
func (b *bench) openAll(subjects []*subject, on func(*subject) *fleet, c calls) ([]*session, error) {
	var setups []setup
	for _, s := range subjects {
		addrs, err := on(s).at(c.far)
		if err != nil {
			return nil, err
		}
		b.opened++
		setups = append(setups, setup{
			Addrs: addrs, TTL: ttl, NodeTimeout: c.nodeTimeout(), Callers: c.callers, Names: c.names, Prefix: b.name(), WarmUp: b.plan.warmUp,
		})
	}
	workers, err := startAll(subjects, setups)
	if err != nil {
		return nil, err
	}
	var all []*session
	for i, r := range workers {
		all = append(all, &session{r, on(subjects[i]), b.plan.bound})
	}
	return all, nil
}

// measured is what was found while a session's callers were driven.
type measured struct {
	driven driven
	spent  spent
	counts counts
}

// drive has the callers lock and unlock for so long.
func (o *session) drive(lasting time.Duration) (measured, error) {
	before, err := o.fleet.load()
	if err != nil {
		return measured{}, err
	}
	r, err := o.worker.Ask(order{Op: opDrive, Lasting: lasting, Bound: o.bound}, lasting+o.bound+readyLimit)
	if err != nil {
		return measured{}, err
	}
	after, err := o.fleet.load()
	return measured{r.Driven, spent{after.Minus(before), r.CPU, r.Allocs}, r.Counts}, err
}

// measure drives the session and returns its figures.
func (o *session) measure(lasting time.Duration) (figures, error) {
	m, err := o.drive(lasting)
	if err != nil {
		return nil, err
	}
	return m.figures(lasting), nil
}

// plus adds what another drive found.
func (m *measured) plus(n measured) {
	m.driven.plus(n.driven)
	m.spent = m.spent.plus(n.spent)
	m.counts = m.counts.plus(n.counts)
}

// figures returns what drives of that length together found.
func (m measured) figures(lasting time.Duration) figures {
	slices.Sort(m.driven.Times)
	out := m.driven.figures(lasting)
	if m.driven.Stuck == 0 {
		m.spent.each(len(m.driven.Times), out)
	}
	m.counts.into(out)
	return out
}

func (o *session) close() { child.End(o.worker) }

func closeAll(all []*session) {
	var workers []*remote
	for _, o := range all {
		workers = append(workers, o.worker)
	}
	child.End(workers...)
}

// name returns the prefix of the names of the run that began last.
func (b *bench) name() string { return fmt.Sprintf("bench:%d", b.opened) }
