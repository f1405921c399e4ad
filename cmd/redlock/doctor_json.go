package main

import (
	"io"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/wire"
)

// printJSON prints what the doctor has found as one line. adopted is what --adopt has done.
func (d *doctor) printJSON(out io.Writer, findings []finding, sum diagnosis, adopted []string) error {
	type master struct {
		Name   string   `json:"name"`
		Votes  bool     `json:"votes"`
		Wait   int64    `json:"wait_ms"` // until it votes; -1: not by waiting
		Role   string   `json:"role"`    // empty if it does not say
		RTT    float64  `json:"rtt_ms"`  // 0 if unknown
		MaxTTL int64    `json:"max_ttl_ms"`
		Why    []string `json:"why"`

		Clients   *int     `json:"clients"`        // of redlock that listen there; null if it does not say
		Ahead     *float64 `json:"clock_ahead_ms"` // of this machine's clock at least; null if unknown
		Server    string   `json:"server"`         // these are empty if it does not say
		Eviction  string   `json:"eviction"`
		AOF       string   `json:"aof"`
		Snapshots string   `json:"snapshots"`
	}
	type client struct {
		Owner   string   `json:"owner"`   // empty if it names none
		Masters int      `json:"masters"` // how many it has; 0 if it does not say
		On      []string `json:"on"`      // the masters of --masters on which it listens
		Off     []string `json:"off"`     // those on which it does not
	}
	all := struct {
		Masters     []master `json:"masters"`
		Now         int      `json:"now"`   // may vote at once
		Later       int      `json:"later"` // may vote when time has passed, beside those
		Need        int      `json:"need"`  // for a quorum
		Able        bool     `json:"able"`  // locks can be acquired now
		MaxTTL      int64    `json:"max_ttl_ms"`
		NodeTimeout int64    `json:"node_timeout_ms"`
		Adopt       []string `json:"adopt,omitempty"`
		Strays      []client `json:"strays"` // clients that have another list of masters, or cannot reach some
		Verdict     []string `json:"verdict"`
	}{
		Masters: []master{}, Strays: []client{}, Now: sum.now, Later: sum.later, Need: sum.need, Able: sum.now >= sum.need && !sum.tooFar(),
		MaxTTL: d.agreed.Milliseconds(), NodeTimeout: sum.timeout.Milliseconds(),
		Adopt: adopted, Verdict: strings.Split(strings.TrimSuffix(sum.String(), "\n"), "\n"),
	}
	for _, f := range findings {
		one := master{Name: f.name, Wait: -1, Role: f.role, RTT: float64(f.rtt) / float64(time.Millisecond), MaxTTL: f.look.Record.MaxTTL.Milliseconds(), Why: f.why()}
		one.Server, one.Eviction, one.AOF, one.Snapshots = f.facts.server, f.facts.policy, f.facts.aof, f.facts.snapshots
		if f.ids != nil {
			clients := len(f.ids)
			one.Clients = &clients
		}
		if f.failure == nil && f.refusal == nil {
			ahead := float64(f.ahead) / float64(time.Millisecond)
			one.Ahead = &ahead
		}
		if wait, ok := f.wait(d.quarantine()); ok {
			one.Votes, one.Wait = wait == 0, wait.Milliseconds()
		}
		all.Masters = append(all.Masters, one)
	}
	for _, s := range sum.strays {
		all.Strays = append(all.Strays, client{wire.OwnerOf(s.id), s.has, append([]string{}, s.on...), append([]string{}, s.off...)})
	}
	return writeJSON(out, all)
}
