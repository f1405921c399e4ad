package programs

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestAMissingProgramSkipsTheTestOrFailsItByTheEnvironment(t *testing.T) {
	for name, p := range known {
		for _, tt := range []struct{ name, require, want string }{
			{"skips", "", "skip: for want of " + name + ": install " + p.install + " to run this test"},
			{"fails", "1", "fail: for want of " + name + ": " + p.require + "=1 forbids skipping"},
		} {
			t.Run(name+" "+tt.name, func(t *testing.T) {
				t.Setenv("PATH", t.TempDir())
				t.Setenv(p.require, tt.require)
				if got := endOf(t, func(tb testing.TB) { Command(tb, name) }); got != tt.want {
					t.Errorf("Command ends the test with %q, want %q", got, tt.want)
				}
			})
		}
	}
}

func TestAProgramThatIsThereNeedsNothing(t *testing.T) {
	for _, name := range []string{"go", os.Args[0]} {
		if got := endOf(t, func(tb testing.TB) { Command(tb, name) }); got != "" {
			t.Errorf("Command of %s ends the test with %q", name, got)
		}
	}
}

func TestAProgramThatNobodyHasNamedIsABug(t *testing.T) {
	if got := endOf(t, func(tb testing.TB) { Need(tb, "no-such-program") }); !strings.HasPrefix(got, "fail: programs: bug: ") {
		t.Errorf("Need ends the test with %q, want that it fails", got)
	}
}

// endOf returns how f ends its test, or "" if it does not.
func endOf(t *testing.T, f func(testing.TB)) string {
	tb := &outcome{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(tb)
	}()
	<-done
	return tb.got
}

// outcome is a testing.TB that only records how the test ends.
type outcome struct {
	testing.TB
	got string
}

func (o *outcome) Helper() {}
func (o *outcome) Skipf(format string, args ...any) {
	o.got = "skip: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (o *outcome) Fatalf(format string, args ...any) {
	o.got = "fail: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}
