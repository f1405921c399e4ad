package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redlock-go/redlock/internal/supervise"
)

// TestMain runs the tests, or the command, for tests that start it as a process: the demo's
// workers, `redlock run` and the command that it runs, and `redlock doctor` in another
// environment.
func TestMain(m *testing.M) {
	runDialTimeout, doctorPatience = 15*time.Second, 10*time.Second // servers on a busy machine are slow
	if len(os.Args) > 1 && (os.Args[1] == runCommandName || os.Args[1] == "doctor" || os.Args[1] == "verify") || len(os.Args) == 2 && os.Args[1] == supervise.Name {
		main()
		os.Exit(exitOK)
	}
	if len(os.Args) > 2 && os.Args[1] == runChildName {
		os.Exit(runChild(os.Args[2], os.Args[3:]))
	}
	if len(os.Args) > 1 && (os.Args[1] == workerCommandName || os.Args[1] == verifierCommandName) {
		os.Exit(run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Unsetenv(mastersEnv) // the tests choose their masters themselves
	// The tests wait more than they compute.
	flag.Parse()
	flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}

func TestEachCommandLineHasItsExitStatusAndFirstLine(t *testing.T) {
	for _, tt := range []struct {
		name    string
		args    []string
		want    int
		wantOut string
		wantErr string
	}{
		{"no arguments show help", nil, exitOK, "redlock demo", ""},
		{"help", []string{"--help"}, exitOK, "COMMANDS:", ""},
		{"help for demo", []string{"demo", "--help"}, exitOK, "Exit status: 0 if", ""},
		{"a URL for a value of a flag", []string{"completion", "--help=redis://u:s3kret@h:1"}, exitUsage, "", "redlock: error: "},
		{"a URL for a flag of a shell", []string{"completion", "bash", "--x=redis://u:s3kret@h:1"}, exitUsage, "", "redlock: error: "},
		{"unknown command", []string{"frobnicate"}, exitUsage, "", `redlock: error: unknown command "frobnicate"`},
		{"a URL for a command", []string{"redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: a URL is not a command"},
		{"help with an unknown flag", []string{"help", "--nix"}, exitUsage, "", "redlock: error: help has no flag --nix\nredlock: hint: `redlock --help` lists"},
		{"help for an unknown command", []string{"help", "nix"}, exitUsage, "", "redlock: error: No help topic"},
		{"help for a URL", []string{"help", "redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: a URL is not a command"},
		{"help for a URL, of a command", []string{"doctor", "help", "redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: "},
		{"completion for a URL", []string{"completion", "redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: "},
		{"unknown flag", []string{"demo", "--frob"}, exitUsage, "", "redlock: error: demo has no flag --frob\nredlock: hint: `redlock demo --help` lists"},
		{"a URL for a flag", []string{"demo", "--redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: demo: a URL is not a flag"},
		{"run with a flag that it does not have", []string{"run", "--frob", "n", "--", "true"}, exitUsage, "", "redlock: error: run has no flag --frob\nredlock: hint: `redlock run --help` lists"},
		{"run with a time that has no unit", []string{"run", "--wait", "5", "n", "--", "true"}, exitUsage, "", `redlock: error: --wait is "5", want a time with a unit`},
		{"run with a status that is no number", []string{"run", "--held-exit", "x", "n", "--", "true"}, exitUsage, "", `redlock: error: --held-exit is "x", want a whole number`},
		{"run with a flag without its value", []string{"run", "--ttl"}, exitUsage, "", "redlock: error: --ttl needs a value"},
		{"run with too long a MaxTTL", []string{"run", "--masters", "h:1", "--max-ttl", "1000h", "n", "--", "echo"}, exitUsage, "", "redlock: error: --max-ttl is 1000h0m0s, above the limit"},
		{"stray argument", []string{"demo", "redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: demo takes no arguments"},
		{"bad masters", []string{"demo", "--masters", "redis://:s3kret@h:1,nix"}, exitUsage, "", "redlock: error: --masters: URL 2: neither"},
		{"masters in a file that is not there", []string{"demo", "--masters", "@/nix"}, exitUsage, "", "redlock: error: --masters: open /nix: no such file"},
		{"a URL for the file of masters", []string{"demo", "--masters", "@redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: --masters: a URL is not the name of a file: leave the @ out"},
		{"a URL without a scheme for the file of masters", []string{"demo", "--masters", "@u:s3kret@h:1"}, exitUsage, "", "redlock: error: --masters: open the file: no such file"},
		{"a URL for the file of the next masters", []string{"doctor", "--masters", "h:1", "--next", "@redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: --next: a URL is not the name of a file"},
		{"a URL for a time", []string{"run", "--wait", "redis://:s3kret@h:1", "n", "--", "true"}, exitUsage, "", `redlock: error: --wait is "redis://***@h:1", want a time`},
		{"a URL for a number", []string{"run", "--limit", "redis://:s3kret@h:1", "n", "--", "true"}, exitUsage, "", `redlock: error: --limit is "redis://***@h:1", want a whole number`},
		{"a URL for a file with an authority", []string{"status", "--masters", "rediss://h:1", "--ca", "redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: --ca: open redis://***@h:1: "},
		{"a URL for a history", []string{"verify", "--check", "redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: --check: open redis://***@h:1: "},
		{"a URL for the command to run", []string{"run", "--masters", "h:1", "n", "--", "redis://:s3kret@h:1"}, exitNotFound, "", "redlock: error: "},
		{"help for run", []string{"run", "--help"}, exitOK, "121  the lease was lost", ""},
		{"run without --", []string{"run", "n", "true"}, exitUsage, "", "redlock: error: run needs a -- before"},
		{"run without --, with the command's flag", []string{"run", "n", "ls", "-l"}, exitUsage, "", "redlock: error: run has no flag --l\nredlock: hint: redlock run NAME --"},
		{"run without a name", []string{"run", "--", "true"}, exitUsage, "", "redlock: error: run needs the NAME"},
		{"run with two names", []string{"run", "n", "s3kret", "--", "true"}, exitUsage, "", "redlock: error: run takes one NAME"},
		{"run with a name twice", []string{"run", "--name", "n", "s3kret", "--", "true"}, exitUsage, "", "redlock: error: run takes one NAME before the --, got 2"},
		{"run with several names", []string{"run", "--name", "b", "--name", "a,c", "--", "true"}, exitUsage, "", "redlock: error: run needs the masters"},
		{"run with an empty name among several", []string{"run", "--name", "a", "--name", "", "--", "true"}, exitUsage, "", "redlock: error: run needs the NAME"},
		{"run with a URL among several names", []string{"run", "--name", "a", "--name", "redis://:s3kret@h:1", "--", "true"}, exitUsage, "", "redlock: error: a URL is not the name"},
		{"run with an empty name", []string{"run", "--name", "", "--", "true"}, exitUsage, "", "redlock: error: run needs the NAME"},
		{"run with --name", []string{"run", "--name", "n", "--", "true"}, exitUsage, "", "redlock: error: run needs the masters"},
		{"run with a URL for --name", []string{"run", "--name", "redis://:s3kret@h:1", "--", "true"}, exitUsage, "", "redlock: error: a URL is not the name"},
		{"run with a URL for a name", []string{"run", "redis://:s3kret@h:1", "--", "true"}, exitUsage, "", "redlock: error: a URL is not the name"},
		{"run without a command", []string{"run", "n", "--"}, exitUsage, "", "redlock: error: run needs a COMMAND"},
		{"run without masters", []string{"run", "n", "--", "true"}, exitUsage, "", "redlock: error: run needs the masters"},
		{"run of a lock called help", []string{"run", "help", "--", "true"}, exitUsage, "", "redlock: error: run needs the masters"},
		{"run with a bad TTL", []string{"run", "--ttl", "0", "n", "--", "true"}, exitUsage, "", "redlock: error: --ttl is 0s, want"},
		{"run with too short a TTL", []string{"run", "--masters", "h:1", "--ttl", "20ms", "n", "--", "echo"}, exitUsage, "", "redlock: error: --ttl of 20ms leaves no validity after drift and --node-timeout"},
		{"run with a bad wait", []string{"run", "--wait", "-1s", "n", "--", "true"}, exitUsage, "", "redlock: error: --wait is -1s, want"},
		{"run with a bad node timeout", []string{"run", "--node-timeout", "0", "n", "--", "true"}, exitUsage, "", "redlock: error: --node-timeout is 0s, want"},
		{"run with a node timeout above the TTL", []string{"run", "--masters", "h:1", "--node-timeout", "5s", "n", "--", "echo"}, exitUsage, "", "redlock: error: --node-timeout is 5s, want less than half of --ttl, 10s"},
		{"run with a bad longest TTL", []string{"run", "--max-ttl", "5s", "n", "--", "true"}, exitUsage, "", "redlock: error: --max-ttl is 5s, want no less than --ttl, 10s"},
		{"run with a reserved name", []string{"run", "--masters", "h:1", "redlock:n", "--", "echo"}, exitUsage, "", "redlock: error: the key"},
		{"run with bad masters", []string{"run", "--masters", "redis://:s3kret@h:1,nix", "n", "--", "true"}, exitUsage, "", "redlock: error: --masters: URL 2: neither"},
		{"run of what is not there", []string{"run", "--masters", "h:1", "n", "--", "/nix/nix"}, exitNotFound, "", "redlock: error: "},
		{"run of what cannot be run", []string{"run", "--masters", "h:1", "n", "--", os.TempDir()}, exitCannotExec, "", "redlock: error: "},
		{"help for doctor", []string{"doctor", "--help"}, exitOK, "--adopt declares that nobody holds a lock", ""},
		{"doctor without masters", []string{"doctor"}, exitUsage, "", "redlock: error: doctor needs the masters"},
		{"doctor with masters for arguments", []string{"doctor", "redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: doctor takes no arguments"},
		{"doctor with bad masters", []string{"doctor", "--masters", "redis://:s3kret@h:1,nix"}, exitUsage, "", "redlock: error: --masters: URL 2: neither"},
		{"doctor with a bad MaxTTL", []string{"doctor", "--masters", "h:1", "--max-ttl", "0"}, exitUsage, "", "redlock: error: --max-ttl is 0s, want"},
		{"doctor that is forced to nothing", []string{"doctor", "--masters", "h:1", "--force"}, exitUsage, "", "redlock: error: --force needs --adopt"},
		{"doctor of masters that are gone from no list", []string{"doctor", "--masters", "h:1", "--stopped-for-good"}, exitUsage, "", "redlock: error: --stopped-for-good needs --next"},
		{"doctor that adopts and changes the list", []string{"doctor", "--masters", "h:1", "--adopt", "--next", "h:2"}, exitUsage, "", "redlock: error: --next and --adopt exclude each other"},
		{"doctor with a bad next list", []string{"doctor", "--masters", "h:1", "--next", "redis://:s3kret@h:1,nix"}, exitUsage, "", "redlock: error: --next: URL 2: neither"},
		{"doctor with another database in the next list", []string{"doctor", "--masters", "h:1", "--next", "redis://h:1/2"}, exitUsage, "", "redlock: error: --next has another database of h:1"},
		{"doctor for a single master, without adopting", []string{"doctor", "--masters", "h:1", "--single"}, exitUsage, "", "redlock: error: --single needs --adopt"},
		{"doctor for a single master of two", []string{"doctor", "--masters", "h:1,i:1", "--adopt", "--single"}, exitUsage, "", "redlock: error: --single says that clients have one master, and --masters has 2"},
		{"the ACL rule for adopting", []string{"doctor", "--acl", "--adopt", "--prefix", "x:", "--masters", "redis://h:1/2"}, exitOK, "ACL SETUSER", ""},
		{"the ACL rule and JSON", []string{"doctor", "--acl", "--json"}, exitUsage, "", "redlock: error: --acl only prints a rule, so --json may not stand beside it"},
		{"the ACL rule and an adoption by force", []string{"doctor", "--acl", "--adopt", "--force", "--max-ttl", "10s"}, exitUsage, "", "redlock: error: --acl only prints a rule, so --max-ttl, --force may not stand beside it"},
		{"the ACL rule and a next list", []string{"doctor", "--acl", "--next", "redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: --acl only prints a rule, so --next may not stand beside it"},
		{"the ACL rule and TLS", []string{"doctor", "--acl", "--ca", "x"}, exitUsage, "", "redlock: error: --acl only prints a rule, so --ca may not stand beside it"},
		{"doctor with a reserved prefix", []string{"doctor", "--masters", "h:1", "--prefix", "redlock:x"}, exitUsage, "", "redlock: error: --prefix begins with redlock:, which is reserved"},
		{"the ACL rule of a reserved prefix", []string{"doctor", "--acl", "--prefix", "redlock:x"}, exitUsage, "", "redlock: error: --prefix begins with redlock:, which is reserved"},
		{"the ACL rule of bad masters", []string{"doctor", "--acl", "--masters", "redis://:s3kret@h:1,nix"}, exitUsage, "", "redlock: error: --masters: URL 2: neither"},
		{"doctor with a MaxTTL beyond counting", []string{"doctor", "--masters", "h:1", "--max-ttl", "2562047h"}, exitUsage, "", "redlock: error: --max-ttl is 2562047h0m0s, want more than 0 and at most 168h0m0s"},
		{"run with a TTL beyond counting", []string{"run", "--masters", "h:1", "--ttl", "2562047h", "n", "--", "echo"}, exitUsage, "", "redlock: error: --ttl is 2562047h0m0s, above the limit of 168h0m0s"},
		{"run with a longest TTL beyond counting", []string{"run", "--masters", "h:1", "--max-ttl", "2562047h", "n", "--", "echo"}, exitUsage, "", "redlock: error: --max-ttl is 2562047h0m0s, above the limit of 168h0m0s"},
		{"run with a bad time to keep the lock", []string{"run", "--at-least", "-1s", "n", "--", "true"}, exitUsage, "", "redlock: error: --at-least is -1s, want"},
		{"run that waits for ever and keeps the lock", []string{"run", "--at-least", "1s", "n", "--", "true"}, exitUsage, "", "redlock: error: --at-least needs a shorter --wait"},
		{"run that waits as long as it keeps the lock", []string{"run", "--wait", "1s", "--at-least", "1s", "n", "--", "true"}, exitUsage, "", "redlock: error: --at-least is 1s, want more than --wait, 1s, plus"},
		{"run that waits for less than it keeps the lock", []string{"run", "--wait", "1s", "--at-least", "1001ms", "n", "--", "true"}, exitUsage, "", "redlock: error: run needs the masters"},
		{"run that keeps the lock no longer than needed", []string{"run", "--at-least", "0", "n", "--", "true"}, exitUsage, "", "redlock: error: run needs the masters"},
		{"run with a limit of 0", []string{"run", "--limit", "0", "n", "--", "true"}, exitUsage, "", "redlock: error: --limit is 0, want 1 to 65536"},
		{"run with too large a limit", []string{"run", "--limit", "65537", "n", "--", "true"}, exitUsage, "", "redlock: error: --limit is 65537, want 1 to 65536"},
		{"run with the largest limit", []string{"run", "--limit", "65536", "n", "--", "true"}, exitUsage, "", "redlock: error: run needs the masters"},
		{"run with a limit that is no number", []string{"run", "--limit", "x", "n", "--", "true"}, exitUsage, "", `redlock: error: --limit is "x", want a whole number`},
		{"run with a limit of several names", []string{"run", "--limit", "2", "--name", "a", "--name", "b", "--", "true"}, exitUsage, "", "redlock: error: --limit takes one NAME, got 2"},
		{"run with a limit and too short a TTL", []string{"run", "--limit", "2", "--ttl", "399ms", "n", "--", "true"}, exitUsage, "", "redlock: error: --ttl is 399ms, want 400ms or more with --limit"},
		{"run with a limit and the shortest TTL", []string{"run", "--limit", "2", "--ttl", "400ms", "n", "--", "true"}, exitUsage, "", "redlock: error: run needs the masters"},
		{"run with a limit of a reserved name", []string{"run", "--masters", "h:1", "--limit", "2", "redlock:n", "--", "echo"}, exitUsage, "", "redlock: error: the key"},
		{"run with a bad limit of time", []string{"run", "--max", "0", "n", "--", "true"}, exitUsage, "", "redlock: error: --max is 0s, want more than 0"},
		{"run with a bad status", []string{"run", "--held-exit", "256", "n", "--", "true"}, exitUsage, "", "redlock: error: --held-exit is 256, want 0 to 255"},
		{"run with a bad owner", []string{"run", "--masters", "h:1", "--owner", "a b", "n", "--", "echo"}, exitUsage, "", "redlock: error: --owner is \"a b\", want printable"},
		{"help for status", []string{"status", "--help"}, exitOK, "OWNER    who holds the lock", ""},
		{"status without masters", []string{"status"}, exitUsage, "", "redlock: error: status needs the masters"},
		{"status of names and a prefix", []string{"status", "--masters", "h:1", "--prefix", "a", "b"}, exitUsage, "", "redlock: error: status takes names or --prefix, not both"},
		{"status of a reserved prefix", []string{"status", "--masters", "h:1", "--prefix", "redlock:"}, exitUsage, "", "redlock: error: --prefix begins with redlock:, which is reserved"},
		{"status of a URL", []string{"status", "redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: a URL is not the name"},
		{"status with bad masters", []string{"status", "--masters", "redis://:s3kret@h:1,nix"}, exitUsage, "", "redlock: error: --masters: URL 2: neither"},
		{"status with a certificate and no key", []string{"status", "--masters", "rediss://h:1", "--cert", "x"}, exitUsage, "", "redlock: error: --cert and --key need each other"},
		{"status with an authority that is not there", []string{"status", "--masters", "rediss://h:1", "--ca", "/nix"}, exitUsage, "", "redlock: error: --ca: open /nix: no such file"},
		{"status with an authority that is none", []string{"status", "--masters", "rediss://h:1", "--ca", os.DevNull}, exitUsage, "", "redlock: error: --ca: " + os.DevNull + " has no certificate in PEM"},
		{"status with flags for TLS without TLS", []string{"status", "--masters", "redis://:s3kret@h:1", "--insecure"}, exitUsage, "", "redlock: error: --ca, --cert, --key and --insecure are for rediss:// URLs"},
		{"help for break", []string{"break", "--help"}, exitOK, "Until then two clients can hold the lock.", ""},
		{"break without a name", []string{"break", "--masters", "h:1"}, exitUsage, "", "redlock: error: break takes the NAME of one lock, got 0"},
		{"break of two names", []string{"break", "--masters", "h:1", "a", "s3kret"}, exitUsage, "", "redlock: error: break takes the NAME of one lock, got 2"},
		{"break of a reserved name", []string{"break", "--masters", "h:1", "redlock:x"}, exitUsage, "", "redlock: error: a name that begins with redlock: is reserved"},
		{"break without masters", []string{"break", "x"}, exitUsage, "", "redlock: error: break needs the masters"},
		{"doctor with rights for status and nothing to print", []string{"doctor", "--masters", "h:1", "--status"}, exitUsage, "", "redlock: error: --status needs --acl"},
		{"help for verify", []string{"verify", "--help"}, exitOK, "two clients may hold a lock", ""},
		{"verify without masters", []string{"verify"}, exitUsage, "", "redlock: error: verify needs the masters"},
		{"verify with an argument", []string{"verify", "redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: verify takes no arguments"},
		{"verify with bad masters", []string{"verify", "--masters", "redis://:s3kret@h:1,nix"}, exitUsage, "", "redlock: error: --masters: URL 2: neither"},
		{"verify for no time", []string{"verify", "--masters", "h:1", "--for", "0"}, exitUsage, "", "redlock: error: --for is 0s, want 1s to 24h0m0s"},
		{"verify for ever", []string{"verify", "--masters", "h:1", "--for", "25h"}, exitUsage, "", "redlock: error: --for is 25h0m0s, want 1s to 24h0m0s"},
		{"verify for a time without a unit", []string{"verify", "--for", "5"}, exitUsage, "", `redlock: error: --for is "5", want a time with a unit`},
		{"verify that checks and runs", []string{"verify", "--check", "x", "--for", "5s"}, exitUsage, "", "redlock: error: --check runs nothing, so --for has no meaning"},
		{"verify that checks what is not there", []string{"verify", "--check", "/nix"}, exitUsage, "", "redlock: error: --check: open /nix: no such file"},
		{"verify with TLS flags without TLS", []string{"verify", "--masters", "h:1", "--insecure"}, exitUsage, "", "redlock: error: --ca, --cert, --key and --insecure are for rediss:// URLs"},
		{"a verifier by hand", []string{verifierCommandName}, exitUsage, "", "redlock: error: verify-worker is started by"},
		{"a worker by hand", []string{workerCommandName}, exitUsage, "", "redlock: error: demo-worker is started by"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			got := run(t.Context(), append([]string{"redlock"}, tt.args...), strings.NewReader(""), &out, &errOut)
			if got != tt.want {
				t.Errorf("run(%q) = %d, want %d", tt.args, got, tt.want)
			}
			if !strings.Contains(out.String(), tt.wantOut) {
				t.Errorf("standard output %q does not contain %q", out.String(), tt.wantOut)
			}
			if !strings.HasPrefix(errOut.String(), tt.wantErr) || (tt.wantErr == "") != (errOut.Len() == 0) {
				t.Errorf("standard error %q, want it to begin with %q", errOut.String(), tt.wantErr)
			}
			if strings.Contains(out.String()+errOut.String(), "s3kret") {
				t.Errorf("the output shows a password: %s%s", out.String(), errOut.String())
			}
		})
	}
}

func TestHelpFitsATerminalAndShowsNeitherTheWorkerNorPasswords(t *testing.T) {
	t.Setenv(mastersEnv, "redis://:s3kret@h:1")
	for _, args := range [][]string{
		{"redlock"}, {"redlock", "run", "--help"}, {"redlock", "status", "--help"}, {"redlock", "break", "--help"},
		{"redlock", "demo", "--help"}, {"redlock", "doctor", "--help"},
	} {
		var out bytes.Buffer
		run(t.Context(), args, strings.NewReader(""), &out, &out)
		for line := range strings.Lines(out.String()) {
			if columns := utf8.RuneCountInString(line) - 1; columns > 80 {
				t.Errorf("%q has a line of %d columns: %s", args, columns, line)
			}
		}
		for _, not := range []string{"s3kret", workerCommandName} {
			if strings.Contains(out.String(), not) {
				t.Errorf("%q shows %q:\n%s", args, not, out.String())
			}
		}
	}
}

func TestReportPrintsErrorsAndChoosesTheStatus(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name     string
		ctx      context.Context
		err      error
		want     int
		wantText string
	}{
		{"success", t.Context(), nil, exitOK, ""},
		{"finished although interrupted", ended, nil, exitOK, ""},
		{"failure", t.Context(), errors.New("redlock: so be it"), exitFailure, "redlock: error: so be it\n"},
		{"hint", t.Context(), withHint(errors.New("no"), "try"), exitFailure, "redlock: error: no\nredlock: hint: try\n"},
		{"interrupted", ended, errors.New("a worker failed"), exitInterrupted, "redlock: error: interrupted\n"},
		{"a worker's death is no wrong usage", t.Context(), errors.Join(&exec.ExitError{}), exitFailure, "redlock: error: <nil>\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var text bytes.Buffer
			if got := report(tt.ctx, tt.err, &text); got != tt.want || text.String() != tt.wantText {
				t.Errorf("report = %d %q, want %d %q", got, text.String(), tt.want, tt.wantText)
			}
		})
	}
}

// until waits until the condition is true.
func until(t *testing.T, what func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !what(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what was waited for did not happen")
		}
	}
}

func TestCutCommandKeepsTheCommandsFlagsFromRedlock(t *testing.T) {
	for _, tt := range []struct{ args, rest, command string }{
		{"redlock", "redlock", "none"},
		{"redlock demo -- x", "redlock demo -- x", "none"},
		{"redlock run n", "redlock run n", "none"},
		{"redlock run n --", "redlock run n", ""},
		{"redlock run n -- ls -l -- x", "redlock run n", "ls -l -- x"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			rest, command := cutCommand(strings.Fields(tt.args))
			got := strings.Join(command, " ")
			if command == nil {
				got = "none"
			}
			if got != tt.command || strings.Join(rest, " ") != tt.rest {
				t.Errorf("cutCommand = %q, %q, want %q, %q", rest, got, tt.rest, tt.command)
			}
		})
	}
}
