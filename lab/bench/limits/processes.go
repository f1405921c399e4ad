package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/child"
	"github.com/redlock-go/redlock/lab/internal/measure"
)

// workerEnv makes this program a worker: it holds the addresses of the masters.
const workerEnv = "REDLOCK_LIMITS_MASTERS"

// work locks one name, holds it for 1 ms and unlocks it, until standard input ends. Then it prints
// how often it had the lock, its longest wait and the CPU time that it used.
func work(addrs []string) error {
	c, err := open(addrs, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	end := make(chan struct{})
	go func() {
		io.Copy(io.Discard, in)
		close(end)
	}()
	mu := c.Locker("limits")
	locks, longest := 0, time.Duration(0)
	used := measure.CPU()
	for {
		select {
		case <-end:
			_, err := fmt.Println(locks, int64(longest), int64(measure.CPU()-used))
			return err
		default:
		}
		locks, longest = turn(mu, locks, longest)
	}
}

func turn(mu *redlock.Locker, locks int, longest time.Duration) (int, time.Duration) {
	began := time.Now()
	mu.Lock()
	longest = max(longest, time.Since(began))
	time.Sleep(time.Millisecond)
	mu.Unlock()
	return locks + 1, longest
}

type worker struct {
	*child.Worker
	out *bufio.Reader
}

// processes measures many processes that contend for one name.
func processes(*options) error {
	const span = 10 * time.Second
	table("processes", "locks/s", "fewest and most locks of a process", "longest wait", "CPU of all clients", "CPU of all masters")
	for _, n := range []int{2, 16, 64, 200} {
		f, err := start(5)
		if err != nil {
			return err
		}
		err = contend(f, n, span, func(int) []string { return nil })
		f.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// contend has n workers take turns. env returns more of the environment of each.
func contend(f fleet, n int, span time.Duration, env func(i int) []string) error {
	var all []*worker
	defer func() {
		for _, w := range all {
			w.Kill()
		}
	}()
	for i := range n {
		w, err := startWorker(f, env(i)...)
		if err != nil {
			return err
		}
		all = append(all, w)
	}
	before, err := f.Load()
	if err != nil {
		return err
	}
	for _, w := range all {
		io.WriteString(w.In, "go\n")
	}
	time.Sleep(span)
	after, err := f.Load()
	if err != nil {
		return err
	}
	for _, w := range all {
		w.In.Close()
	}
	total, fewest, most := 0, -1, 0
	var longest, used int64
	for _, w := range all {
		var locks int
		var wait, spent int64
		if _, err := fmt.Fscan(w.out, &locks, &wait, &spent); err != nil {
			return fmt.Errorf("a worker's report: %w", err)
		}
		total += locks
		most = max(most, locks)
		if fewest < 0 || locks < fewest {
			fewest = locks
		}
		longest, used = max(longest, wait), used+spent
	}
	row(fmt.Sprint(n), fmt.Sprintf("%.0f", float64(total)/span.Seconds()), fmt.Sprintf("%d, %d", fewest, most),
		time.Duration(longest).Round(time.Millisecond).String(),
		fmt.Sprintf("%.0f %% of a core", 100*time.Duration(used).Seconds()/span.Seconds()),
		fmt.Sprintf("%.0f %% of a core", 100*(after.CPU-before.CPU).Seconds()/span.Seconds()))
	return nil
}

// startWorker starts this program as a worker, with more of an environment.
func startWorker(f fleet, env ...string) (*worker, error) {
	p, err := child.Start("", os.Stderr, append(env, workerEnv+"="+strings.Join(f.Addrs(), ","))...)
	if err != nil {
		return nil, err
	}
	w := &worker{p, bufio.NewReader(p.Out)}
	if _, err := w.out.ReadString('\n'); err != nil {
		w.Kill()
		return nil, fmt.Errorf("a worker did not start: %w", err)
	}
	return w, nil
}
