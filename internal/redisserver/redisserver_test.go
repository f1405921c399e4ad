package redisserver

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// start starts one server.
func start(t *testing.T, args ...string) *Server {
	t.Helper()
	return StartTB(t, 1, args...)[0]
}

// must sends a command and fails t unless the answer is want.
func must(t *testing.T, s *Server, want string, command string, args ...any) {
	t.Helper()
	reply, err := s.Do(command, args...)
	if b, ok := reply.([]byte); ok {
		reply = string(b)
	}
	if got := fmt.Sprint(reply); err != nil || got != want {
		t.Fatalf("%s %v = %v, %v, want %s", command, args, got, err, want)
	}
}

func runID(t *testing.T, s *Server) string {
	t.Helper()
	info, err := redis.String(s.Do("INFO", "server"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "run_id:")
	id, _, _ := strings.Cut(after, "\r")
	return id
}

// refused reports whether dials of the address are refused, since no process listens there.
func refused(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		c.Close()
	}
	return err != nil
}

func TestServersAreIndependent(t *testing.T) {
	servers := StartTB(t, 5)
	ids := map[string]bool{}
	for i, s := range servers {
		must(t, s, "<nil>", "GET", "stock")
		must(t, s, "OK", "SET", "stock", i)
		ids[runID(t, s)] = true
	}
	for i, s := range servers {
		must(t, s, fmt.Sprint(i), "GET", "stock")
	}
	if len(ids) != 5 {
		t.Errorf("%d different run_ids, want 5", len(ids))
	}
}

func TestManyServersCanBeStartedAtOnce(t *testing.T) {
	start(t) // skips where there is none
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			s, err := Start()
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Stop()
			if _, err := s.Do("PING"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestArgumentsOverrideDefaults(t *testing.T) {
	s := start(t, "--maxmemory-policy", "allkeys-lru", "--requirepass", "sesame")
	must(t, s, "PONG", "PING")
	policy, err := redis.Strings(s.Do("CONFIG", "GET", "maxmemory-policy"))
	if err != nil || policy[1] != "allkeys-lru" {
		t.Errorf("maxmemory-policy = %q, %v, want allkeys-lru", policy, err)
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	start(t) // skips where there is none
	s, err := Start("--no-such-option", "1")
	if err == nil {
		s.Stop()
		t.Fatal("Start = nil, want an error")
	}
	if !strings.Contains(err.Error(), "no-such-option") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Start = %q, want one line with the server's own words", err)
	}
}

func TestATakenPortIsTheOnlyReasonToTryAnother(t *testing.T) {
	s := start(t)
	other := &Server{port: s.port, dir: t.TempDir(), args: s.args, env: s.env, life: make(chan struct{}, 1)}
	defer other.kill()
	if err := other.launch(); !errors.Is(err, errPortTaken) {
		t.Errorf("launch on a taken port = %v, want errPortTaken", err)
	}
	must(t, s, "PONG", "PING")
}

func TestThePortOfAKilledServerIsReservedUntilStop(t *testing.T) {
	s := start(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has abstract sockets")
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := reserve(s.port); err == nil {
		t.Error("the port of a killed server can be reserved for another one")
	}
	s.Stop()
	reserved, err := reserve(s.port)
	if err != nil {
		t.Fatalf("after Stop: %v", err)
	}
	reserved.Close()
}

func TestAFrozenServerAnswersAfterTheThaw(t *testing.T) {
	s := start(t)
	if err := s.Freeze(); err != nil {
		t.Skipf("Freeze = %v", err)
	}
	c, err := redis.Dial("tcp", s.Addr()) // the kernel accepts the connection
	if err != nil {
		t.Fatal(err)
	}
	c.Send("SET", "stock", "a")
	c.Flush()
	if got, err := redis.ReceiveWithTimeout(c, 50*time.Millisecond); !os.IsTimeout(err) {
		t.Errorf("SET at a frozen server = %v, %v, want a timeout", got, err)
	}
	c.Close()
	if err := s.Thaw(); err != nil {
		t.Fatal(err)
	}
	must(t, s, "a", "GET", "stock")
}

func TestAKilledServerForgetsUnlessItPersists(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"default":    {nil, "<nil>"},
		"appendonly": {[]string{"--appendonly", "yes"}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, test.args...)
			addr, pid, id := s.Addr(), s.PID(), runID(t, s)
			must(t, s, "OK", "SET", "stock", "a")
			for range 2 {
				if err := s.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			if !refused(addr) {
				t.Error("a killed server accepts connections")
			}
			if err := s.Freeze(); err == nil {
				t.Error("Freeze of a killed server = nil, want an error")
			}
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			must(t, s, test.want, "GET", "stock")
			if s.Addr() != addr || s.PID() == pid || runID(t, s) == id {
				t.Errorf("after Restart: %s, process %d, run_id %s, want the same address, another process and run_id", s.Addr(), s.PID(), runID(t, s))
			}
		})
	}
}

func TestARunningOrFrozenServerCanBeRestarted(t *testing.T) {
	s := start(t)
	for i := range 20 {
		must(t, s, "<nil>", "GET", "stock")
		must(t, s, "OK", "SET", "stock", "a")
		if i%2 == 0 {
			s.Freeze()
		}
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStopRemovesTheDirectory(t *testing.T) {
	s := start(t)
	if _, err := os.Stat(filepath.Join(s.Dir(), "redis.log")); err != nil {
		t.Error(err)
	}
	s.Freeze()
	s.Stop()
	s.Stop()
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v, want it removed", err)
	}
	if !refused(s.Addr()) {
		t.Error("a stopped server accepts connections")
	}
	if err := s.Restart(); !errors.Is(err, ErrStopped) {
		t.Errorf("Restart = %v, want ErrStopped", err)
	}
}

func TestServersSurviveTheThreadsOfTheirStarters(t *testing.T) {
	start(t) // skips where there is none
	var servers []*Server
	for range 4 {
		started := make(chan *Server)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			s, err := Start()
			if err != nil {
				t.Error(err)
			}
			started <- s
		}()
		if s := <-started; s != nil {
			t.Cleanup(s.Stop)
			servers = append(servers, s)
		}
	}
	time.Sleep(20 * time.Millisecond) // a signal would have arrived by now
	for _, s := range servers {
		must(t, s, "PONG", "PING")
	}
}

// TestServersEndWhenTheirTestIsKilled runs this test as another process and kills that process.
func TestServersEndWhenTheirTestIsKilled(t *testing.T) {
	if os.Getenv("REDISSERVER_CHILD") == "1" {
		fmt.Println("addr " + start(t).Addr())
		select {}
	}
	start(t) // skips where there is none
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells children of their parent's death")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServersEndWhenTheirTestIsKilled$")
	cmd.Env = append(os.Environ(), "REDISSERVER_CHILD=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "addr ")
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil || !ok {
		t.Fatalf("the child says %q, %v, want an address", line, err)
	}
	for deadline := time.Now().Add(time.Minute); !refused(addr); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the server at %s outlives its test", addr)
		}
	}
}
