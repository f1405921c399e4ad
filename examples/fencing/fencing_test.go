//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// TestMain runs the tests, or the command: the tests start stores and workers as processes of
// this binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "store" || os.Args[1] == "work") {
		time.AfterFunc(5*patience, func() { os.Exit(99) }) // no process is left behind for long
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// patience bounds every wait.
const patience = 30 * time.Second

// A process is a store or a worker.
type process struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string   // what it prints; closed when it is gone
	said  bytes.Buffer  // its standard error; to be read when it is gone
	gone  chan struct{} // closed when it is
}

// start starts the command as a process.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(os.Args[0], args...), lines: make(chan string, 100), gone: make(chan struct{})}
	p.cmd.Stderr = &p.said
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
		p.cmd.Wait()
		close(p.gone)
		close(p.lines)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill() // stopped or not
		<-p.gone
	})
	return p
}

// line returns the next line that the process prints, or false if the process has ended.
func (p *process) line() (string, bool) {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		return line, ok
	case <-time.After(patience):
		p.t.Fatalf("the %s prints nothing", p.name)
		return "", false
	}
}

// lost reports whether a worker that has ended had lost its lease. On a busy machine that happens to a lease that somebody has
// released for it: it lives for 400 ms before its first renewal.
func (p *process) lost() bool { return strings.Contains(p.said.String(), `lease of "account" lost`) }

// startWorker starts a worker, and another one if that has lost its lease before it has printed a line. It returns the line.
func startWorker(t *testing.T, name string, args ...string) (p *process, line string) {
	t.Helper()
	for range 20 {
		p = start(t, name, append([]string{"work"}, args...)...)
		var ok bool
		if line, ok = p.line(); ok {
			return p, line
		} else if !p.lost() {
			break
		}
	}
	t.Fatalf("the %s has ended, and said: %s", name, &p.said)
	return nil, ""
}

// startPaused starts a worker that reads the value, and waits before its write.
func startPaused(t *testing.T, name string, args ...string) (p *process, read int, fence uint64) {
	t.Helper()
	p, line := startWorker(t, name, append([]string{"-pause"}, args...)...)
	p.fits(line, "read %d with fence %d, and the lease is valid: Enter writes", &read, &fence)
	return p, read, fence
}

// expect reads a line that fits the format, and stores its numbers.
func (p *process) expect(format string, numbers ...any) {
	p.t.Helper()
	line, ok := p.line()
	if !ok {
		p.t.Fatalf("the %s has ended, and said: %s", p.name, &p.said)
	}
	p.fits(line, format, numbers...)
}

// fits stores the numbers of a line that fits the format.
func (p *process) fits(line, format string, numbers ...any) {
	p.t.Helper()
	if n, err := fmt.Sscanf(line, format, numbers...); err != nil || n != len(numbers) {
		p.t.Fatalf("the %s prints %q, want %q", p.name, line, format)
	}
}

// enter sends Enter, which a stopped process reads when it continues.
func (p *process) enter() {
	p.t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wrote waits for the end of a worker, and reports whether the store has accepted its
// write.
func (p *process) wrote() bool {
	p.t.Helper()
	line, wrote := p.line()
	if wrote && !strings.HasPrefix(line, "wrote ") {
		p.t.Fatalf("the %s prints %q, want that it wrote", p.name, line)
	}
	if wrote {
		if line, more := p.line(); more {
			p.t.Fatalf("the %s prints %q, and should have ended", p.name, line)
		}
	}
	return wrote
}

// A scene is a store, the masters of the lock, and two workers. The first worker was stopped
// directly before its write, after it had found its lease valid. When that lease had ended, the
// second worker acquired the lock and read the value.
type scene struct {
	url           string
	first, second *process
	early, late   uint64 // their fences
	args          []string
}

const firstAdds, secondAdds = 1, 10

func newScene(t *testing.T, compare bool) *scene {
	t.Helper()
	servers := redisserver.AdoptedTB(t, 3)
	var masters []string
	for _, s := range servers {
		masters = append(masters, s.Addr())
	}
	s := &scene{}
	start(t, "store", "store", "-file", filepath.Join(t.TempDir(), "store"), fmt.Sprintf("-compare=%t", compare)).expect("%s", &s.url)
	s.args = []string{"-store", s.url, "-masters", strings.Join(masters, ",")}

	s.first, _, s.early = startPaused(t, "first worker", append(s.args, "-ttl", "2s", "-add", strconv.Itoa(firstAdds))...)
	s.first.signal(syscall.SIGSTOP)

	// A running worker would renew its lease. The second worker acquires the lock only because
	// the first one is stopped.
	var n int
	s.second, n, s.late = startPaused(t, "second worker", append(s.args, "-add", strconv.Itoa(secondAdds))...)
	if n != 0 || s.early == 0 || s.late <= s.early {
		t.Fatalf("the second worker has fence %d and reads %d, the first has fence %d; want a higher one and 0", s.late, n, s.early)
	}
	return s
}

// lateWrite continues the first worker, which writes without checking its lease again.
func (s *scene) lateWrite() (accepted bool) {
	s.first.t.Helper()
	s.first.enter()
	s.first.signal(syscall.SIGCONT)
	return s.first.wrote()
}

func (s *scene) secondWrite() (accepted bool) {
	s.second.t.Helper()
	s.second.enter()
	return s.second.wrote()
}

// stored returns what is in the store.
func (s *scene) stored(t *testing.T) (value int, fence uint64) {
	t.Helper()
	client := http.Client{Timeout: patience}
	resp, err := client.Get(s.url + "/account")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if value, err = strconv.Atoi(string(text)); err != nil {
		t.Fatal(err)
	}
	if fence, err = strconv.ParseUint(resp.Header.Get("Fence"), 10, 64); err != nil {
		t.Fatal(err)
	}
	return value, fence
}

// orders are the moments at which the late write can come. In both the second worker holds the
// lock.
var orders = []struct {
	name string
	play func(*scene) (first, second bool) // whether the writes are accepted
	lost int                               // what the store has in the end if it accepts both
}{
	{"after the second's write", func(s *scene) (first, second bool) {
		second = s.secondWrite()
		return s.lateWrite(), second
	}, firstAdds},
	{"between the second's read and its write", func(s *scene) (first, second bool) {
		first = s.lateWrite()
		return first, s.secondWrite()
	}, secondAdds},
}

func TestAFenceRefusesTheLateWriter(t *testing.T) {
	t.Parallel()
	for _, order := range orders {
		t.Run(order.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, true)
			first, second := order.play(s)
			if first || !second {
				t.Errorf("the first worker's late write was accepted: %t, the second's: %t; want only the second's", first, second)
			}
			want := fmt.Sprintf("409 Conflict: fence %d is below %d, the highest for account", s.early, s.late)
			if said := s.first.said.String(); !strings.Contains(said, want) {
				t.Errorf("the first worker says %q, want %q in it", said, want)
			}
			if value, fence := s.stored(t); value != secondAdds || fence != s.late {
				t.Errorf("the store has %d with fence %d, want the second's %d with %d", value, fence, secondAdds, s.late)
			}
			// Nothing is lost: a worker that was refused can try again.
			again, line := startWorker(t, "first worker again", append(s.args, "-add", strconv.Itoa(firstAdds))...)
			if !strings.HasPrefix(line, "wrote ") {
				t.Errorf("the %s prints %q, want that it wrote", again.name, line)
			}
			if value, _ := s.stored(t); value != firstAdds+secondAdds {
				t.Errorf("the store has %d, want %d", value, firstAdds+secondAdds)
			}
		})
	}
}

// The same processes with a store that does not compare fences: the lock alone does not protect
// the value.
func TestWithoutFencesTheLateWriterUndoesAnUpdate(t *testing.T) {
	t.Parallel()
	for _, order := range orders {
		t.Run(order.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, false)
			if first, second := order.play(s); !first || !second {
				t.Errorf("the first worker's late write was accepted: %t, the second's: %t; want both", first, second)
			}
			if value, _ := s.stored(t); value != order.lost {
				t.Errorf("the store has %d, want %d: the other's update is lost", value, order.lost)
			}
		})
	}
}

// The file may be read at any moment, for example after a crash. It always has a value with its
// own fence. (On other systems than Unix, a reader would block the writer.)
func TestTheFileIsCompleteWheneverItIsRead(t *testing.T) {
	s := newStore(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			var all map[string]record
			text, err := os.ReadFile(s.path)
			if err == nil {
				err = json.Unmarshal(text, &all)
			}
			r := all["account"]
			if n, _ := strconv.ParseUint(string(r.Value), 10, 64); err != nil || r.Fence != n && r.Fence != 100 {
				t.Errorf("the file is %q (%v)", text, err)
				return
			}
		}
	}()
	for n := 101; n < 301; n++ {
		fence := strconv.Itoa(n)
		want(t, s, reply{200, fence, ""}, "PUT", "/account", fence, fence)
	}
	close(stop)
	<-stopped
}
