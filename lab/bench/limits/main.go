// Command limits measures how far redlock goes: how many names one Client can hold, how many
// waiters one name can have, which names, TTLs and numbers of masters work, and what each costs. It
// starts real redis-server processes. It prints Markdown.
//
//	go run ./limits                    # everything but the polls, the long hold and the busy machine, about six minutes
//	go run ./limits -only names,ttls   # some sections
//	go run ./limits -only hold -hold 1h
//	go run ./limits -only busy -busy 12 # leases that are lost on a busy machine; ./losses compares two commits
//
// All clients and servers share the machine, so figures of CPU time are per operation or per second,
// and are added up for all five masters unless the text says otherwise.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/lab/internal/child"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// A section is one table.
type section struct {
	name string
	run  func(*options) error
}

type options struct {
	hold   time.Duration // of the section hold
	busy   int           // how many processes compute in the section busy
	span   time.Duration // and how long it takes
	leases []int         // of the section held

	clients  []int // of the sections crowd and polls
	commands bool  // it prints which commands the masters executed
}

var sections = []section{
	{"cost", cost},
	{"scripts", scripts},
	{"held", held},
	{"waiters", waiters},
	{"crowd", crowd},
	{"crash", crash},
	{"processes", processes},
	{"ring", ring},
	{"polls", polls},
	{"permits", permits},
	{"names", names},
	{"masters", masters},
	{"ttls", ttls},
	{"hold", longHold},
	{"busy", busy},
}

func main() { child.Main("limits", work, run) }

func run() error {
	o := &options{leases: []int{1, 1_000, 10_000, 100_000}, clients: []int{16, 64, 200, 400}}
	only := flag.String("only", "cost,scripts,held,waiters,crowd,crash,processes,ring,permits,names,masters,ttls", "the sections to run")
	flag.DurationVar(&o.hold, "hold", time.Minute, "how long the section hold holds its locks")
	flag.IntVar(&o.busy, "busy", 12, "how many processes compute in the section busy")
	flag.DurationVar(&o.span, "span", time.Minute, "how long the section busy takes")
	flag.Func("clients", "how many `clients` the sections crowd and polls have, separated by commas (default 16,64,200,400; 1000 take about three minutes, and 20 000 file descriptors)", func(s string) (err error) {
		o.clients = nil
		for _, word := range strings.Split(s, ",") {
			n, bad := strconv.Atoi(word)
			o.clients, err = append(o.clients, n), cmp.Or(err, bad)
		}
		return err
	})
	flag.BoolVar(&o.commands, "commands", false, "have the sections crowd and permits print which commands the masters execute")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	wanted := strings.Split(*only, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(sections, func(s section) bool { return s.name == name }) {
			return fmt.Errorf("no section %q", name)
		}
	}
	fmt.Printf("%s, %d cores, %s/%s\n", runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	for _, s := range sections {
		if !slices.Contains(wanted, s.name) {
			continue
		}
		fmt.Printf("\n## %s\n\n", s.name)
		if err := s.run(o); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// start starts n servers that are adopted: their votes count at once.
func start(n int) (servers.Fleet, error) { return servers.Adopted(n, servers.Crowded...) }

// table prints the head of a table.
func table(columns ...string) {
	row(columns...)
	fmt.Println("|" + strings.Repeat("---|", len(columns)))
}

func row(cells ...string) { fmt.Println("| " + strings.Join(cells, " | ") + " |") }

// spread returns the least, the median and the most of an odd number of values.
func spread[T cmp.Ordered](values []T) (least, median, most T) {
	s := slices.Sorted(slices.Values(values))
	return s[0], s[len(s)/2], s[len(s)-1]
}
