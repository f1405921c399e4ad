package main

import (
	"fmt"
	"strings"
	"time"
)

// markdown returns RESULTS.md.
func markdown(r *results) string {
	var s strings.Builder
	s.WriteString("# Results\n\n")
	s.WriteString("Written by `go run .` in this directory; nothing here is written by hand.\n\n")
	if r.short {
		s.WriteString("**This was a -short run: it shows that the benchmark works, and little else.**\n\n")
	}
	s.WriteString("![chart](results.svg)\n\n")
	r.where(&s)
	r.how(&s)
	s.WriteString("## Targets\n\nComputed from the figures below. A ratio is ours to " + reference + " in this run, or to what it says.\n\n")
	s.WriteString(r.verdicts().markdown())
	s.WriteString("\n[MISSES.md](MISSES.md) says why what is missed is missed, from profiles.\n")
	s.WriteString("\n## Figures\n")
	for _, w := range r.workloads {
		t := r.table(w)
		t.head[0] = ""
		fmt.Fprintf(&s, "\n### %s\n\n%s\n\n%s", w.title, w.about, t.markdown())
	}
	s.WriteString("\n## Settings\n\n")
	for _, x := range r.subjects {
		fmt.Fprintf(&s, "- **%s**: %s.\n", x.id, x.settings)
	}
	return s.String()
}

func (r *results) where(s *strings.Builder) {
	m := r.machine
	fmt.Fprintf(s, "Run on %s, in %v, on %d cores of %s, Linux %s, %s, redis-server %s; five masters and all clients on that machine.\n",
		r.at.UTC().Format(time.DateOnly), r.took.Round(time.Second), m.cores, m.cpu, m.kernel, m.goVersion, m.redis)
	fmt.Fprintf(s, "Peers: %s. (redsync 4.18.1 has the same code as 4.18.0.)\n", strings.Join(m.versions, ", "))
	s.WriteString("\n")
}

func (r *results) how(s *strings.Builder) {
	p := r.plan
	fmt.Fprintf(s, `## How it was measured

- Five redis-server processes without persistence, on loopback. Clients and masters share the cores, so what a client
  costs its machine shows in its throughput.
- In each repetition all libraries take turns, in another order each time, each with a client of its own that is opened,
  warmed up for %v, measured for %v (processes: %v) and closed. Shown is the **median over the repetitions**: %d where
  all masters are healthy and nobody waits, %d otherwise, %d for leases held. Counts of what should never happen (failed
  unlocks, violations, lost leases) are **sums** over them.
- All: TTL 10 s, five masters (but bsm/redislock, which knows one), no limit of tries, keys' names never used before. The
  masters are adopted when they have started, so that nobody waits for a quarantine. The last column is the first
  column's figure as a multiple of %s's.
- What the restart guard and fencing cost is less than what the machine varies by from one second to the next. There,
  ours with and without it are open at once and take turns of %v, %d in each repetition; each repetition has a ratio, and
  their median is shown. *one round %%*: of all fenced acquisitions, by Trace.Acquired.
- *commands/lock*: commandstats of all five masters, those inside scripts included, connections' own (HELLO, CLIENT,
  PING) left out. *client CPU*: getrusage of the process or processes that lock, the benchmark's own loop included.
  *server CPU*: INFO cpu of all masters that are well. *allocations/lock*: runtime.MemStats, of one lock and unlock.
- Time-outs of the peers for one master: %v, redsync's default for this TTL; where masters are frozen or dead %v, which is
  our default and what the specification advises: without it, redigo has no time-out at all and go-redis one of 5 s.
- Where masters are frozen or dead, an operation that takes longer than %v is abandoned, and the table says so; a library
  that did it twice is not asked again. Throughput counts the locks that were over in time.
- Other processes are this program again. **Violations** are counted from all processes' times of entering (after Lock
  returned) and leaving (before Unlock was called), by CLOCK_MONOTONIC, merged and sorted: an entering before an earlier
  stay's leaving is one.
- *Jain's index* is (Σx)²/(n·Σx²) of what each got. *longest wait* includes waits that the end of the run cut short.

`, p.warmUp, p.lasting, p.contending, p.reps, p.faultReps, p.leaseReps, reference, p.turn, p.turns, patient, brisk, p.bound)
}
