package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
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
	used := cpu()
	for {
		select {
		case <-end:
			_, err := fmt.Println(locks, int64(longest), int64(cpu()-used))
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
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (w *worker) kill() {
	w.cmd.Process.Kill()
	w.cmd.Wait()
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
		err = contend(f, n, span)
		f.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

func contend(f fleet, n int, span time.Duration) error {
	var all []*worker
	defer func() {
		for _, w := range all {
			w.kill()
		}
	}()
	for range n {
		w, err := startWorker(f)
		if err != nil {
			return err
		}
		all = append(all, w)
	}
	before, err := f.load()
	if err != nil {
		return err
	}
	for _, w := range all {
		io.WriteString(w.in, "go\n")
	}
	time.Sleep(span)
	after, err := f.load()
	if err != nil {
		return err
	}
	for _, w := range all {
		w.in.Close()
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
		fmt.Sprintf("%.0f %% of a core", 100*(after.cpu-before.cpu).Seconds()/span.Seconds()))
	return nil
}

// startWorker starts this program as a worker, with more of an environment.
func startWorker(f fleet, env ...string) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.Command(self)}
	w.cmd.Env = append(append(os.Environ(), workerEnv+"="+strings.Join(f.addrs(), ",")), env...)
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := w.out.ReadString('\n'); err != nil {
		w.cmd.Process.Kill()
		return nil, fmt.Errorf("a worker did not start: %w", err)
	}
	return w, nil
}
