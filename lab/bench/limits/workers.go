package main

import (
	"time"

	"github.com/redlock-go/redlock/lab/internal/child"
)

// A worker is a process of a section, in one of the roles. It gets three orders: what it is to work with, to begin, and to end. It answers
// the first when it is ready, and the last by a report.
type worker = child.Worker[order, report]

// An order is empty, but for the first.
type order struct {
	Addrs      []string // of the masters
	Number, Of int      // the worker's number, and how many there are
	Clients    int      // of a part of a crowd
}

// A report is what a worker has found.
type report struct {
	Locks, LostLocks, Permits, LostPermits int
	Longest                                time.Duration // a wait
	CPU                                    time.Duration
}

// roles are what workers do. When they are ready, they call begin. It waits for the order to begin, and returns a channel for the order to
// end.
var roles = map[string]func(o order, begin func() <-chan order) (report, error){
	"turns":   takeTurns,
	"ring":    joinRing,
	"queue":   joinQueue,
	"script":  joinScript,
	"crowd":   joinCrowd,
	"busy":    beBusy,
	"compute": compute,
}

// work is the main function of a worker.
func work(role string) error {
	orders, answer := child.Serve[order, report]()
	return answer(roles[role](<-orders, func() <-chan order {
		answer(report{}, nil) // an error: the master has ended, and so does this process
		<-orders
		return orders
	}))
}

// workerLimit is how long a worker may take to be ready, and to report.
const workerLimit = time.Minute

func startWorker(role string, o order) (*worker, error) {
	w, err := child.StartWorker[order, report]("", role)
	if err != nil {
		return nil, err
	}
	if _, err = w.Ask(o, workerLimit); err != nil {
		child.End(w)
	}
	return w, err
}

func startWorkers(role string, n int, addrs []string) (all []*worker, err error) {
	for i := range n {
		w, err := startWorker(role, order{Addrs: addrs, Number: i, Of: n})
		if err != nil {
			child.End(all...)
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// tell has all workers begin, or end.
func tell(all []*worker) error {
	for _, w := range all {
		if err := w.Tell(order{}); err != nil {
			return err
		}
	}
	return nil
}

// reports has all workers end, and returns their reports.
func reports(all []*worker) (found []report, err error) {
	if err := tell(all); err != nil {
		return nil, err
	}
	for _, w := range all {
		r, err := w.Answer(workerLimit)
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, nil
}
