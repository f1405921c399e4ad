package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain lets the test binary be the demo's worker: the demo re-executes whatever
// executable it is in. It also lets it be `redlock run`, which is about processes, and what
// that runs, and `redlock doctor`, which a test gives another environment.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == runCommandName || os.Args[1] == "doctor") {
		main()
	}
	if len(os.Args) > 2 && os.Args[1] == runChildName {
		os.Exit(runChild(os.Args[2], os.Args[3:]))
	}
	if len(os.Args) > 1 && os.Args[1] == workerCommandName {
		os.Exit(run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Unsetenv(mastersEnv) // the tests choose their masters themselves
	os.Exit(m.Run())
}

func TestExitStatusAndFirstLine(t *testing.T) {
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
		{"unknown command", []string{"frobnicate"}, exitUsage, "", `redlock: error: unknown command "frobnicate"`},
		{"a URL for a command", []string{"redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: a URL is not a command"},
		{"help for an unknown command", []string{"help", "nix"}, exitUsage, "", "redlock: error: No help topic"},
		{"unknown flag", []string{"demo", "--frob"}, exitUsage, "", "redlock: error: flag provided but not defined"},
		{"stray argument", []string{"demo", "redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: demo takes no arguments"},
		{"bad masters", []string{"demo", "--masters", "redis://:s3kret@h:1,nix"}, exitUsage, "", "redlock: error: master 2 of 2 in --masters is neither"},
		{"help for run", []string{"run", "--help"}, exitOK, "121  the lease was lost", ""},
		{"run without --", []string{"run", "n", "true"}, exitUsage, "", "redlock: error: run needs a -- before"},
		{"run without --, with the command's flag", []string{"run", "n", "ls", "-l"}, exitUsage, "", "redlock: error: flag provided but not defined: -l\nredlock: hint: redlock run NAME --"},
		{"run without a name", []string{"run", "--", "true"}, exitUsage, "", "redlock: error: run needs the NAME"},
		{"run with two names", []string{"run", "n", "s3kret", "--", "true"}, exitUsage, "", "redlock: error: run takes one NAME"},
		{"run with a URL for a name", []string{"run", "redis://:s3kret@h:1", "--", "true"}, exitUsage, "", "redlock: error: a URL is not the name"},
		{"run without a command", []string{"run", "n", "--"}, exitUsage, "", "redlock: error: run needs a COMMAND"},
		{"run without masters", []string{"run", "n", "--", "true"}, exitUsage, "", "redlock: error: run needs the masters"},
		{"run of a lock called help", []string{"run", "help", "--", "true"}, exitUsage, "", "redlock: error: run needs the masters"},
		{"run with a bad TTL", []string{"run", "--ttl", "0", "n", "--", "true"}, exitUsage, "", "redlock: error: --ttl is 0s, want"},
		{"run with too short a TTL", []string{"run", "--masters", "h:1", "--ttl", "20ms", "n", "--", "echo"}, exitUsage, "", "redlock: error: LockOptions.TTL"},
		{"run with a bad wait", []string{"run", "--wait", "-1s", "n", "--", "true"}, exitUsage, "", "redlock: error: --wait is -1s, want"},
		{"run with a bad longest TTL", []string{"run", "--max-ttl", "5s", "n", "--", "true"}, exitUsage, "", "redlock: error: --max-ttl is 5s, want no less than --ttl, 10s"},
		{"run with a reserved name", []string{"run", "--masters", "h:1", "redlock:n", "--", "echo"}, exitUsage, "", "redlock: error: the key"},
		{"run with bad masters", []string{"run", "--masters", "redis://:s3kret@h:1,nix", "n", "--", "true"}, exitUsage, "", "redlock: error: master 2 of 2 in --masters is neither"},
		{"run of what is not there", []string{"run", "--masters", "h:1", "n", "--", "/nix/nix"}, exitNotFound, "", "redlock: error: "},
		{"run of what cannot be run", []string{"run", "--masters", "h:1", "n", "--", os.TempDir()}, exitCannotExec, "", "redlock: error: "},
		{"help for doctor", []string{"doctor", "--help"}, exitOK, "--adopt declares that nobody holds a lock", ""},
		{"doctor without masters", []string{"doctor"}, exitUsage, "", "redlock: error: doctor needs the masters"},
		{"doctor with masters for arguments", []string{"doctor", "redis://:s3kret@h:1"}, exitUsage, "", "redlock: error: doctor takes no arguments"},
		{"doctor with bad masters", []string{"doctor", "--masters", "redis://:s3kret@h:1,nix"}, exitUsage, "", "redlock: error: master 2 of 2 in --masters is neither"},
		{"doctor with a bad MaxTTL", []string{"doctor", "--masters", "h:1", "--max-ttl", "0"}, exitUsage, "", "redlock: error: --max-ttl is 0s, want"},
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

func TestHelpHidesTheWorkerAndTheEnvironmentsPasswords(t *testing.T) {
	t.Setenv(mastersEnv, "redis://:s3kret@h:1")
	for _, args := range [][]string{{"redlock"}, {"redlock", "demo", "--help"}, {"redlock", "doctor", "--help"}} {
		var out bytes.Buffer
		run(t.Context(), args, strings.NewReader(""), &out, &out)
		for _, not := range []string{"s3kret", workerCommandName} {
			if strings.Contains(out.String(), not) {
				t.Errorf("%q shows %q:\n%s", args, not, out.String())
			}
		}
	}
}

func TestReport(t *testing.T) {
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
