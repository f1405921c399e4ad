package stall_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/stall"
)

// childEnv makes a test hang: the tests run themselves in a child process with it.
const childEnv = "REDLOCK_STALL_CHILD"

// dies runs the calling test in a child process, which must end by itself with a report.
func dies(t *testing.T, how string, want ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), childEnv+"="+how)
	began := time.Now()
	kill := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	defer kill.Stop()
	out, err := cmd.CombinedOutput()
	t.Logf("%s: %v after %v", how, err, time.Since(began).Round(time.Millisecond))
	if code := cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("%s: the child has ended with %d, want 2, by a report", how, code)
	}
	for _, w := range want {
		if !regexp.MustCompile(w).Match(out) {
			t.Errorf("%s: the child did not write %q:\n%s", how, w, out)
		}
	}
}

// lockTwice waits for a mutex that its caller holds.
func lockTwice(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
	mu.Lock()
}

func TestABubbleThatHangsOnAMutexEndsTheProcess(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		dies(t, "mutex", `(?s)^stalled: the bubble of TestABubbleThat\w+, after \d+s: no goroutine could run in the last \S+\n\ngoroutine \d+ [^\n]*\[sync.Mutex.Lock.*lockTwice`)
		return
	}
	stall.SetEvery(200 * time.Millisecond)
	bubbletest.Test(t, func(*testing.T) {
		go func() {
			for {
				time.Sleep(time.Second) // the time of the bubble stands still all the same
			}
		}()
		lockTwice(new(sync.Mutex))
	})
}

func TestAProcessWhoseTimePassesForNothingIsEnded(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		dies(t, "forever", `(?s)^stalled: a bubble, after \d+s: it has used 200ms of processor time`)
		return
	}
	stall.SetEvery(200 * time.Millisecond)
	defer stall.Watch("a bubble", 200*time.Millisecond)()
	bubbletest.Test(t, func(*testing.T) {
		for {
			time.Sleep(time.Second)
		}
	})
}

func TestAStuckProcessThatIsNotWatchedGoesOn(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), childEnv+"=waits")
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "stalled") {
			t.Errorf("the child has ended with %v:\n%s", err, out)
		}
		return
	}
	every := stall.SetEvery(100 * time.Millisecond)
	stall.Watch("nothing", time.Hour)()
	time.Sleep(8 * every)
}

func TestWhenAProcessIsStuck(t *testing.T) {
	const hour = time.Hour
	for _, row := range []struct {
		name  string
		stack string
		used  time.Duration
		limit time.Duration
		stuck bool
	}{
		{"it waits for a mutex", "goroutine 7 [sync.Mutex.Lock, 3 minutes, synctest bubble 2]:\nf()", 0, hour, true},
		{"it is durably blocked, and its time stands still", "goroutine 7 [chan receive (durable), synctest bubble 2]:\nf()", time.Millisecond, hour, true},
		{"it has no processor", "goroutine 7 [runnable, synctest bubble 2]:\nf()", 0, hour, false},
		{"it runs", "goroutine 7 gp=0x1 m=2 [running]:\nf()", 0, hour, false},
		{"it uses the processor", "goroutine 7 [sync.Mutex.Lock]:\nf()", time.Second, hour, false},
		{"it uses the processor for too long", "goroutine 7 [runnable]:\nf()", time.Second, 3 * time.Second, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				if got := stall.NewScene(row.stack, row.used).Run(20, row.limit); (got != "") != row.stuck {
					t.Errorf("the report is %q, want one: %v", got, row.stuck)
				}
			})
		})
	}
}

func TestAReportShowsFirstWhatWaitsForAMutex(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		const want = "stalled: it, after 5s: no goroutine could run in the last 5s\n\n" +
			"goroutine 7 [sync.Mutex.Lock, synctest bubble 2]:\nf()\n\ngoroutine 1 [select]:\nmain()\n"
		if got := stall.NewScene("goroutine 7 [sync.Mutex.Lock, synctest bubble 2]:\nf()", 0).Run(20, time.Hour); got != want {
			t.Errorf("the report is %q, want %q", got, want)
		}
	})
}
