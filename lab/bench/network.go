package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/lab/bench/internal/delay"
	"github.com/redlock-go/redlock/lab/internal/child"
)

// distances says how long what a client sends is under way to each master, and what the master sends to
// the client. A master at no distance is connected to without a proxy.
type distances [masters]time.Duration

// roundTrips returns the distances of a client that has the same round trip to all masters.
func roundTrips(rtt time.Duration) distances {
	var d distances
	for i := range d {
		d[i] = rtt / 2
	}
	return d
}

// nearTo returns the distances of a client that is near to some masters and far from the others.
func nearTo(far time.Duration, near ...int) distances {
	d := roundTrips(2 * far)
	for _, i := range near {
		d[i] = 0
	}
	return d
}

// farthest returns the master that is farthest.
func (d distances) farthest() int {
	far := 0
	for i := range d {
		if d[i] > d[far] {
			far = i
		}
	}
	return far
}

// networkRole is the role of the process that delays.
const networkRole = "network"

// A network leads clients to the masters of a fleet over distances. Its proxies are a process of their
// own: what they cost is nobody's.
type network struct {
	process *remote
	fleet   *fleet
	addrs   map[distances][]string
}

func startNetwork(f *fleet) (*network, error) {
	r, err := child.StartWorker[order, report]("", networkRole)
	if err != nil {
		return nil, err
	}
	return &network{process: r, fleet: f, addrs: make(map[distances][]string)}, nil
}

// lead returns the addresses at which the masters are so far away.
func (n *network) lead(d distances) ([]string, error) {
	if n.addrs[d] != nil {
		return n.addrs[d], nil
	}
	addrs := n.fleet.Addrs()
	for i := range addrs {
		if d[i] == 0 {
			continue
		}
		r, err := n.process.Ask(order{Op: opForward, Target: addrs[i], Delay: d[i]}, readyLimit)
		if err != nil {
			return nil, err
		}
		addrs[i] = r.Addr
	}
	n.addrs[d] = addrs
	return addrs, nil
}

// forward is the main function of the process that delays.
func forward() error {
	relay, err := delay.New()
	if err != nil {
		return err
	}
	defer relay.Close()
	orders, answer := child.Serve[order, report]()
	for o := range orders {
		addr, err := relay.Forward(o.Target, o.Delay)
		if err := answer(report{Addr: addr}, err); err != nil {
			return err
		}
	}
	return nil
}

// at returns the addresses at which the fleet's masters are so far away.
func (f *fleet) at(d distances) ([]string, error) {
	if d == (distances{}) {
		return f.Addrs(), nil
	}
	if f.network == nil {
		var err error
		if f.network, err = startNetwork(f); err != nil {
			return nil, err
		}
	}
	return f.network.lead(d)
}

// A pinger measures the round trip to the farthest master.
type pinger struct {
	conn redis.Conn // nil: no master is far
	took []time.Duration
}

func (f *fleet) pinger(d distances) (*pinger, error) {
	if d == (distances{}) {
		return &pinger{}, nil
	}
	addrs, err := f.at(d)
	if err != nil {
		return nil, err
	}
	c, err := redis.Dial("tcp", addrs[d.farthest()], redis.DialReadTimeout(5*time.Second))
	if err != nil {
		return nil, err
	}
	return &pinger{conn: c}, nil
}

// ping sends n PINGs, one after the other.
func (p *pinger) ping(n int) error {
	for range n {
		if p.conn == nil {
			return nil
		}
		began := time.Now()
		if _, err := p.conn.Do("PING"); err != nil {
			return fmt.Errorf("PING: %w", err)
		}
		p.took = append(p.took, time.Since(began))
	}
	return nil
}

// trip ends the measuring and returns the median; 0 if no master is far.
func (p *pinger) trip() time.Duration {
	if p.conn == nil {
		return 0
	}
	p.conn.Close()
	slices.Sort(p.took)
	return quantile(p.took, 0.5)
}
