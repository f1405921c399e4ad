package redlocktest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

// misuses are tests that use masters in a bubble other than the one in which they were started.
var misuses = map[string]struct {
	test func(t *testing.T)
	want string // the text of the failure
}{
	"Open in a bubble": {
		test: func(t *testing.T) {
			ms := redlocktest.Start(t)
			bubbletest.Test(t, func(t *testing.T) { ms.Open(nil).Locker("a").Lock() })
		},
		want: "redlocktest: the masters were started outside of the synctest bubble",
	},
	"Pools in a bubble": {
		test: func(t *testing.T) {
			ms := redlocktest.Start(t).WithDelays(0, 0, 0, 0, 0)
			bubbletest.Test(t, func(t *testing.T) { ms.Pools() })
		},
		want: "redlocktest: the masters were started outside of the synctest bubble",
	},
	"a dial in a bubble": {
		test: func(t *testing.T) {
			pools := redlocktest.Start(t).Pools()
			bubbletest.Test(t, func(t *testing.T) {
				c, err := redlock.New(pools, nil)
				if err != nil {
					t.Fatal(err)
				}
				c.Locker("a").Lock()
			})
		},
		want: "panic: redlocktest: the masters were started outside of the synctest bubble",
	},
	"URLs in a bubble": {
		test: func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) { redlocktest.Start(t).URLs() })
		},
		want: "redlocktest: URLs: sockets do not work in a synctest bubble",
	},
	"Open after the bubble": {
		test: func(t *testing.T) {
			var ms *redlocktest.Masters
			bubbletest.Test(t, func(t *testing.T) { ms = redlocktest.Start(t) })
			ms.Open(nil).Locker("a").Lock()
		},
		want: "panic: redlocktest: the test that started these masters has ended",
	},
}

// misuseVariable names the misuse that this process must run.
const misuseVariable = "REDLOCKTEST_MISUSE"

func TestMastersOfAnotherBubbleFailAtOnce(t *testing.T) {
	if name := os.Getenv(misuseVariable); name != "" {
		misuses[name].test(t)
		return
	}
	for name, row := range misuses {
		t.Run(name, func(t *testing.T) {
			const limit = time.Minute
			cmd := exec.Command(os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$", "-test.timeout="+limit.String())
			cmd.Env = append(os.Environ(), misuseVariable+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), row.want) || strings.Contains(string(out), "test timed out") {
				t.Errorf("the test ends with %v and says\n%s\nwant a failure with %q", err, out, row.want)
			}
		})
	}
}
