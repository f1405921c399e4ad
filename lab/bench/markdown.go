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
	s.WriteString("## Targets\n\nComputed from the figures below: the median over the repetitions, with the least and the greatest. A ratio is the median of the repetitions' ratios.\n\n")
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
  costs its machine shows in its throughput. Each library has processes of its own, which are this program again.
- Repetitions are interleaved: in each one all libraries take turns, each with a client of its own that is opened and
  warmed up. Where nobody waits for anybody they are open at once, and take turns of 40 to 400 ms, several in each
  repetition, in an order in which everybody follows everybody as often. Shown is the **median over the repetitions**: %d
  where all masters are healthy and nobody waits, %d otherwise, %d for leases held; for the first figure of a table, for
  ratios and for targets with the (least–greatest). Ratios are computed in each repetition: what slows the machine down
  slows both. Counts of what should never happen (failed unlocks, violations, lost leases) are **sums**.
- Distances: another process forwards the connections and delays both directions. A *round trip* is what PING takes
  through it meanwhile, the median. Connecting is not delayed.
- All: TTL 10 s, five masters (but bsm/redislock, which knows one), no limit of tries, keys' names never used before. The
  masters are adopted when they have started, so that nobody waits for a quarantine. The last column is the first
  column's figure as a multiple of %s's.
- What ours counts by itself: *failed unlocks* (Trace.Released), *failed attempts* (Trace.AttemptDone), *one round %%*
  (Trace.Acquired).
- *commands/lock*: commandstats of all five masters, those inside scripts included, connections' own (HELLO, CLIENT,
  PING) left out. *client CPU*: getrusage of the process or processes that lock. *server CPU*: INFO cpu of all masters
  that are well. *allocations/lock*: runtime.MemStats, of one lock and unlock.
- Time-outs of the peers for one master: %v, redsync's default for this TTL; where masters are frozen or dead %v, which is
  our default and what the specification advises: without it, redigo has no time-out at all and go-redis one of 5 s.
- Where masters are frozen or dead, an operation that takes longer than %v is abandoned, and the table says so; a library
  that did it twice is not asked again. Throughput counts the locks that were over in time.
- **Violations** are counted from all processes' times of entering (after Lock returned) and leaving (before Unlock was
  called), by CLOCK_MONOTONIC, merged and sorted: an entering before an earlier stay's leaving is one. *Idle* is, by the
  same times, when nobody was in though somebody waited.
- *Jain's index* is (Σx)²/(n·Σx²) of what each got. *longest wait* includes waits that the end of the run cut short;
  *turns of all* is the longest wait as a multiple of the time in which everybody could enter once.

`, p.reps, p.faultReps, p.leaseReps, reference, patient, brisk, p.bound)
}
