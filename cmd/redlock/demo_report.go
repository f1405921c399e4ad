package main

import (
	"fmt"
	"strings"
	"time"
)

// fate says in two or three words what the demo does to the victim.
func (s *demoMasters) fate() string {
	if s.embedded {
		return "was stopped"
	}
	return "was cut off"
}

// introduction says what is about to happen.
func introduction(cfg demoConfig, masters *demoMasters) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d processes add 1 to a number in a file, %d times each: read it, work for %v, write it back.\n",
		cfg.workers, cfg.each, cfg.hold)
	what := "given"
	if masters.embedded {
		what = "embedded"
	}
	fmt.Fprintf(&b, "The lock lives on %d %s Redis masters: %s.\n\n", len(masters.names), what, listNames(masters.names))
	return b.String()
}

// listNames joins names; where all share a host, as embedded masters do, it is said once.
func listNames(names []string) string {
	host, _, ok := strings.Cut(names[0], ":")
	short := []string{names[0]}
	for _, name := range names[1:] {
		if !ok || !strings.HasPrefix(name, host+":") {
			return strings.Join(names, ", ")
		}
		short = append(short, strings.TrimPrefix(name, host))
	}
	return strings.Join(short, ", ")
}

// conclusion says what has happened, in a dozen lines.
func conclusion(masters *demoMasters, r demoResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-20s%8s%9s%7s\n", "", "expected", "counted", "lost")
	for _, row := range []struct {
		label string
		demoCount
	}{{"without the lock", r.without}, {"with the lock", r.with}} {
		fmt.Fprintf(&b, "  %-18s%8d%9d%7d\n", row.label, row.expected, row.counted, row.lost())
	}
	b.WriteString("\n")
	switch {
	case r.with.lost() != 0:
		b.WriteString("The lock did not keep the processes apart. That is a bug in redlock.\n")
	case r.without.lost() == 0:
		b.WriteString("Nothing was lost without the lock either: luck, not safety. Run it once more.\n")
	default:
		b.WriteString("Without the lock two processes read the same number and one update overwrites the\n" +
			"other. With it one process at a time reads and writes, and no update is lost.\n")
	}
	b.WriteString(masters.story(r))
	fmt.Fprintf(&b, "%.0f locks per second; the longest wait for one was %s.", r.with.perSecond(), milliseconds(r.with.longest))
	if masters.embedded {
		b.WriteString(" Real servers are faster:\nembedded masters share this machine's cores with the workers.")
	}
	b.WriteString("\n\n")
	if masters.embedded {
		b.WriteString("On your own servers:  redlock demo --masters host1:6379,host2:6379,host3:6379\n")
	}
	fmt.Fprintf(&b, "Read on:              https://%s\n", moduleURL)
	return b.String()
}

// story says what became of the victim.
func (s *demoMasters) story(r demoResult) string {
	n := len(s.names)
	switch {
	case r.taken:
	case n < 3:
		return fmt.Sprintf("No master was taken away: of %s every one is needed for a majority.\n", plural(n, "master"))
	default:
		return "No master was taken away: the demo cannot cut a unix socket.\n"
	}
	story := fmt.Sprintf("Half way, at %d and after %.1f s, %s %s.\nThe counting went on: a lock needs any %d of %s.\n",
		r.takenAt, r.takenAfter.Seconds(), s.victimName(), s.fate(), n/2+1, plural(n, "master"))
	if !s.embedded {
		story += "Only the demo's own connections to that server were cut; it was left alone.\n"
	}
	return story
}

// milliseconds renders d as a person would say it.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
