// Package programs starts external programs for tests. It alone decides what a missing program means: the test is skipped, with a
// sentence that says what to install, or fails if the environment requires the program. So all tests pass on a machine that has
// only Go and a base system. It is for tests.
package programs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program is what a test may need.
type program struct {
	install string // what to install, as a sentence says it
	require string // names an environment variable: if it is "1", a test without the program fails
}

// known are the programs that tests may need.
var known = map[string]program{
	"bash":         {"bash", "REDLOCK_REQUIRE_SHELL"},
	"chromium":     {"Chromium", "REDLOCK_REQUIRE_CHROMIUM"},
	"git":          {"git", "REDLOCK_REQUIRE_GIT"},
	"go":           {"Go", "REDLOCK_REQUIRE_GO"},
	"libfaketime":  {"libfaketime", "REDLOCK_REQUIRE_FAKETIME"},
	"node":         {"Node.js, and run npm ci in lab/interop", "REDLOCK_REQUIRE_NODE"},
	"prometheus":   {"Prometheus", "REDLOCK_REQUIRE_PROMETHEUS"},
	"promtool":     {"Prometheus, which contains promtool", "REDLOCK_REQUIRE_PROMETHEUS"},
	"python3":      {"Python 3", "REDLOCK_REQUIRE_PYTHON"},
	"redis-cli":    {"Redis", "REDLOCK_REQUIRE_REDIS"},
	"redis-server": {"Redis", "REDLOCK_REQUIRE_REDIS"},
	"sh":           {"a POSIX shell", "REDLOCK_REQUIRE_SHELL"},
	"TLS in Redis": {"a redis-server that is built with TLS", "REDLOCK_REQUIRE_REDIS"},
}

// Need skips the test if one of the programs is not in PATH, or fails it if the environment requires that program. The
// test's own binary, os.Args[0], and files that the test has made need no check.
func Need(tb testing.TB, names ...string) {
	tb.Helper()
	for _, name := range names {
		if _, ok := known[name]; !ok {
			tb.Fatalf("programs: bug: package programs does not know what to install for %s", name)
		}
		if _, err := exec.LookPath(name); err != nil {
			Missing(tb, name)
		}
	}
}

// Missing skips the test for want of a program that known lists, or fails it if the environment requires it. It is for what
// Need cannot look up.
func Missing(tb testing.TB, name string) {
	tb.Helper()
	p := known[name]
	if os.Getenv(p.require) == "1" {
		tb.Fatalf("for want of %s: %s=1 forbids skipping", name, p.require)
	}
	tb.Skipf("for want of %s: install %s to run this test", name, p.install)
}

// Command returns a command that runs a program, after Need. A name with a separator is the path of a file that the test
// has made, which is not looked up.
func Command(tb testing.TB, name string, args ...string) *exec.Cmd {
	tb.Helper()
	return CommandContext(context.Background(), tb, name, args...)
}

// CommandContext returns what Command does, and kills the program when ctx ends.
func CommandContext(ctx context.Context, tb testing.TB, name string, args ...string) *exec.Cmd {
	tb.Helper()
	if filepath.Base(name) == name {
		Need(tb, name)
	}
	return exec.CommandContext(ctx, name, args...)
}

// Faketime returns the path of libfaketime, with which a test sets the clock of a program, or skips the test.
func Faketime(tb testing.TB) string {
	tb.Helper()
	libraries, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(libraries) == 0 {
		Missing(tb, "libfaketime")
	}
	return libraries[0]
}

// WholeHistory reports whether the test runs in a clone of the repository with its whole history. An archive and a shallow clone
// do not have it. Without git it skips the test.
func WholeHistory(tb testing.TB) bool {
	tb.Helper()
	shallow, err := Command(tb, "git", "rev-parse", "--is-shallow-repository").Output()
	whole := err == nil && strings.TrimSpace(string(shallow)) == "false"
	if !whole {
		tb.Logf("there is no complete history: %s, %v", shallow, err)
	}
	return whole
}
