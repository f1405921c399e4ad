package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"
	"unicode"

	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock"
)

// FuzzMasters checks that --masters accepts what redlock.Open accepts, and that neither errors nor names contain
// a password.
func FuzzMasters(f *testing.F) {
	const password = "s3kr3tPW"
	for _, entry := range []string{
		"h:1", "h", ":1", "redis://h:1/2", "redis://:PASS@h", "rediss://u:PASS@[::1]:7/3", "unix://:PASS@/run/r?db=1", "redis://:PASS#@h", "redis://u@h",
		"http://h", "unix://h/a", "redis://h?x=1", "redis://h/1?db=1", "\x1b[31m:1", "h:70000", "redis://:PA/SS@h", "redis://%zz", "redis://h/?db=1&db=2",
	} {
		f.Add(strings.ReplaceAll(entry, "PASS", password))
	}
	f.Fuzz(func(t *testing.T, entry string) {
		if strings.Contains(entry, ",") || entry != strings.TrimSpace(entry) || entry == "" {
			return // a comma separates entries, and blanks around one are ignored
		}
		masters, err := parseMasters("--masters", entry)
		if err != nil {
			if strings.Contains(err.Error(), password) || strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("parseMasters(%q) = %q, want a printable line without the password", entry, err)
			}
		} else if strings.ContainsFunc(masters[0].Address(), unicode.IsControl) {
			t.Errorf("parseMasters(%q) has the name %q, want a printable one", entry, masters[0].Address())
		}
		// These Options are refused once the URL was accepted, before anything is dialled.
		_, openErr := redlock.Open([]string{entry}, &redlock.Options{DriftFactor: math.NaN(), Logger: slog.New(slog.DiscardHandler)})
		if openErr == nil {
			t.Fatal("Open accepts a DriftFactor that is no number")
		}
		if accepted := strings.Contains(openErr.Error(), "DriftFactor"); accepted != (err == nil) {
			t.Errorf("%q: parseMasters = %v, Open = %v", entry, err, openErr)
		}
	})
}

// FuzzCommandLine parses command lines without executing them. Nothing may crash, accepted values must be in range,
// and an error must have an exit status and a printable line.
func FuzzCommandLine(f *testing.F) {
	for _, line := range []string{
		"", "--help", "run", "run\n--masters\nh:1\nn\n--\ntrue", "run\nn", "run\n--ttl\n5s\n--wait=0\n--masters=h:1\nn\n--\nx\n--ttl", "run\n--\n--\n--",
		"run\n--ttl\n9223372036854775807ns\n--masters\nh:1\nn\n--\nx", "run\n--ttl\n-1s\nn\n--\nx", "run\n--max-ttl\n2562047h\n--masters\nh:1\nn\n--\nx",
		"doctor\n--masters\nh:1,i:1", "doctor\n--adopt\n--max-ttl\n0", "doctor\n--nix", "demo\n--masters\nh:1", "demo\nx", "help\nx", "help\nrun", "run\n--masters",
		"doctor\n--masters\nredis://:s3kr3tPW@h:1\nx", "redis://:s3kr3tPW@h", "-h", "--", "-", "run\n-\n--\nx", "demo-worker", "run\n--masters\n\x1b[31m\nn\n--\nx",
		"completion\n--help=redis://u:s3kr3tPW@h:1", "completion\nbash\n--x=redis://u:s3kr3tPW@h:1", "status\n--json=redis://u:s3kr3tPW@h:1",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := []string{"redlock"}
		if line != "" {
			args = append(args, strings.Split(line, "\n")...)
		}
		var out, errOut bytes.Buffer
		status := parseOnly(t, args, &out, &errOut)
		if shown := out.String() + errOut.String(); strings.Contains(shown, "s3kr3tPW") && strings.Contains(line, "redis://u:s3kr3tPW@h:1") {
			t.Errorf("%q prints the password: %s", args, shown)
		}
		switch {
		case status != exitOK && status != exitUsage:
			t.Errorf("%q exits with %d before anything is executed, want %d or %d: %s", args, status, exitOK, exitUsage, &errOut)
		case status == exitUsage && !strings.HasPrefix(errOut.String(), "redlock: error: "):
			t.Errorf("%q prints %q, want redlock: error: …", args, &errOut)
		}
	})
}

// parseOnly reads args as run does, but executes nothing.
func parseOnly(t *testing.T, args []string, out, errOut io.Writer) (status int) {
	args, command := cutCommand(args)
	root := rootCommand(strings.NewReader(""), out, errOut, command)
	for _, c := range root.Commands {
		execute := c.Action
		c.Action = func(ctx context.Context, cmd *cli.Command) error {
			switch cmd.Name {
			case runCommandName:
				cfg, err := runConfigOf(cmd, command)
				if err == nil {
					checkRun(t, cfg)
				}
				return err
			case workerCommandName, "help":
				return execute(ctx, cmd) // neither does anything without a parent, or a topic
			}
			if err := noArguments(cmd); err != nil {
				return err
			}
			_, err := mastersOf(cmd)
			return err
		}
	}
	err := root.Run(t.Context(), args)
	return report(t.Context(), err, errOut)
}

// checkRun fails t unless cfg can be run.
func checkRun(t *testing.T, cfg runConfig) {
	if cfg.name == "" || len(cfg.command) == 0 || cfg.command[0] == "" || len(cfg.masters) == 0 {
		t.Errorf("the call %+v is accepted, which lacks a part", cfg)
	}
	if cfg.ttl <= 0 || cfg.maxTTL < 0 || cfg.wait < 0 && cfg.wait != waitForever {
		t.Errorf("the call %+v is accepted, with a duration out of range", cfg)
	}
}
