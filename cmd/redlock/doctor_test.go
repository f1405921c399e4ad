package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/fakeserver"
	"github.com/redlock-go/redlock/internal/incarnation"
)

// anyStatus stands for any exit status.
const anyStatus = -1

// runDoctor runs `redlock doctor` on masters, checks the exit status, and returns the output.
func runDoctor(t *testing.T, status int, masters string, flags ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	args := slices.Concat([]string{"redlock", "doctor", "--masters", masters}, flags)
	got := run(t.Context(), args, strings.NewReader(""), &out, &errOut)
	if got != status && status != anyStatus {
		t.Errorf("exit status %d, want %d:\n%s%s", got, status, out.String(), errOut.String())
	}
	if (errOut.Len() > 0) != (got == exitFailure) {
		t.Errorf("with status %d standard error is %q", got, errOut.String())
	}
	if strings.Contains(out.String(), "s3kret") {
		t.Errorf("the output shows a password:\n%s", out.String())
	}
	return out.String()
}

// row returns some cells of a master's line in the table, and the remarks below it, each on one line.
func row(t *testing.T, out, name string) (votes, role string, remarks []string) {
	t.Helper()
	_, table, _ := strings.Cut(out, "MASTER ")
	table, _, _ = strings.Cut(table, "\n\n")
	found := false
	for line := range strings.Lines(table) {
		cells := strings.Fields(strings.Replace(line, "not yet", "notyet", 1))
		switch text := strings.TrimSpace(line); {
		case line[0] != ' ' && found:
			return votes, role, remarks
		case line[0] != ' ' && cells[0] == name:
			found = true
			votes, role = strings.Replace(cells[1], "notyet", "not yet", 1), cells[len(cells)-4]
			if votes == "in" {
				votes += " " + cells[2]
			}
		case found && strings.HasPrefix(line, "      "):
			remarks[len(remarks)-1] += " " + text
		case found:
			remarks = append(remarks, text)
		}
	}
	if !found || len(remarks) == 0 {
		t.Fatalf("no line and remark on %s in:\n%s", name, out)
	}
	return votes, role, remarks
}

// wantRow fails t unless a master's line has these cells, and its first remark begins with why.
func wantRow(t *testing.T, out, name, votes, role, why string) {
	t.Helper()
	gotVotes, gotRole, remarks := row(t, out, name)
	if gotVotes != votes || gotRole != role || !strings.HasPrefix(remarks[0], why) {
		t.Errorf("%s: %q, %q, %q, want %q, %q, %q…", name, gotVotes, gotRole, remarks, votes, role, why)
	}
}

func TestDoctorChangesNothingUntilItAdopts(t *testing.T) {
	t.Parallel()
	servers, masters := freshMasters(t, 3)
	for range 2 {
		out := runDoctor(t, exitNoQuorum, masters)
		want(t, out, "0 of 3 masters can vote now; a lock needs 2.\nLocks have to wait 12s", "redlock doctor --adopt")
		for _, s := range servers {
			wantRow(t, out, s.Addr(), "not yet", "unknown", "no record: new to redlock, or has lost its data")
			if keys := s.Keys(); len(keys) > 0 {
				t.Errorf("doctor has written %q", keys)
			}
		}
	}
	want(t, runDoctor(t, exitNoQuorum, masters, "--max-ttl", "1h"), "wait 1h0m2s", "MaxTTL is 1h0m0s")

	out := runDoctor(t, exitOK, masters, "--adopt")
	want(t, out, "\n3 of 3 masters can vote now; a lock needs 2.\n")
	for _, s := range servers {
		want(t, out, s.Addr()+": adopted\n")
		wantRow(t, out, s.Addr(), "yes", "unknown", "adopted ")
	}
	want(t, runDoctor(t, exitOK, masters, "--adopt"), servers[0].Addr()+": not adopted: its votes count already\n")
	runDoctor(t, exitOK, masters)

	// The library agrees.
	client := openQuietly(t, masters, redlock.Options{})
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("after the adoption Ping = %v, want nil", err)
	}
}

func TestDoctorSaysThatAServerIsNoRedisServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, says, want string }{
		{"another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n", "not reachable: it does not speak the Redis protocol"},
		{"a reply that fills all memory", "$999999999999\r\n", "not reachable: "},
		{"a server that closes the connection", fakeserver.HangUp, "not reachable: it closed the connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := (&fakeserver.Server{Handle: func(int, []string) string { return tt.says }}).ListenTB(t)
			wantRow(t, runDoctor(t, exitNoQuorum, addr), addr, "no", "-", tt.want)
		})
	}
}

func TestAnInterruptedDoctorAdoptsNothing(t *testing.T) {
	t.Parallel()
	s := miniredis.RunT(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	got := run(ctx, []string{"redlock", "doctor", "--adopt", "--masters", s.Addr()}, strings.NewReader(""), &out, &out)
	if got != exitInterrupted || out.String() != "redlock: error: interrupted\n" {
		t.Errorf("run = %d %q, want %d and one line", got, out.String(), exitInterrupted)
	}
	if s.Exists(incarnation.Key) {
		t.Error("it adopted a master all the same")
	}
}

func TestExplainIsOneShortLine(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"a time-out", fmt.Errorf("dial: %w", context.DeadlineExceeded), "no answer within " + doctorPatience.String()},
		{"an unknown host", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "h", Server: "s"}}, "no such host"},
		{"an error with the address", &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route to host")}, "no route to host"},
		{"two lines", errors.New("one\r\ntwo"), "one two"},
		{"an end", fmt.Errorf("read: %w", io.EOF), "it closed the connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := explain(tt.err); got != tt.want {
				t.Errorf("explain(%v) = %q, want %q", tt.err, got, tt.want)
			}
		})
	}
}

// found returns a finding with a record of this age.
func found(age time.Duration, adopted bool) finding {
	now := time.Now()
	return finding{name: "h:1", role: "master", run: "r", look: incarnation.Inspection{
		Record: incarnation.Record{Text: "r", Since: now.Add(-age), Adopted: adopted}, Now: now,
	}}
}

func TestTheTableSaysWhetherAVoteCountsAndWhyNot(t *testing.T) {
	with := func(f finding, change func(*finding)) finding {
		change(&f)
		return f
	}
	for _, tt := range []struct {
		name       string
		f          finding
		votes, why string
	}{
		{"old", found(50*time.Hour, false), "yes", "known for 2 days"},
		{"of some hours", found(3*time.Hour+12*time.Minute+9*time.Second, false), "yes", "known for 3h12m"},
		{"just old enough", found(12*time.Second, false), "yes", "known for 12s"},
		{"not old enough", found(11500*time.Millisecond, false), "in 1s", "known for 11s"},
		{"young", found(0, false), "in 12s", "known for 0s"},
		{"adopted", found(time.Second, true), "yes", "adopted 1s ago"},
		{"of the future", with(found(0, true), func(f *finding) { f.look.Why = incarnation.Clock }), "not yet", "its record is not valid: its clock was set back"},
		{"clock ahead", with(found(time.Hour, false), func(f *finding) { f.ahead = 2100 * time.Millisecond }), "yes", "; its clock is 2.1s ahead of ours"},
		{"clock behind", with(found(time.Hour, false), func(f *finding) { f.ahead = -time.Minute }), "yes", "; its clock is 1m0s behind ours"},
		{"clock off by little", with(found(time.Hour, false), func(f *finding) { f.ahead = clockTolerance }), "yes", "known for 1h0m"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if votes, why := tt.f.votes(12*time.Second), strings.Join(tt.f.why(), "; "); votes != tt.votes || !strings.HasSuffix(why, tt.why) {
				t.Errorf("votes %q, why %q, want %q, …%q", votes, why, tt.votes, tt.why)
			}
		})
	}
}

func TestDiagnosisSaysWhenALockCanBeAcquired(t *testing.T) {
	up, young, middle := found(time.Hour, false), found(2*time.Second, false), found(6*time.Second, false)
	strange := finding{look: incarnation.Inspection{Why: incarnation.Absent}}
	down, refused := finding{failure: errors.New("x")}, finding{refusal: errors.New("x")}
	const adopt = ", until locks that the masters may have lost have run out " +
		"(MaxTTL is 10s). Only if nobody holds a lock on these masters, let them vote now:\n  redlock doctor --adopt\n"
	const none = "No lock can be acquired until more masters answer and may vote.\n"
	for _, tt := range []struct {
		name     string
		findings []finding
		want     string
	}{
		{"every master can vote", []finding{up, up, up}, "3 of 3 masters can vote now; a lock needs 2.\n"},
		{"a quorum can vote", []finding{up, down, up, young, up}, "3 of 5 masters can vote now; a lock needs 3.\n"},
		{"one more is needed", []finding{up, young, middle}, "1 of 3 masters can vote now; a lock needs 2.\nLocks have to wait 6s" + adopt},
		{"two more are needed", []finding{young, middle, strange}, "0 of 3 masters can vote now; a lock needs 2.\nLocks have to wait 10s" + adopt},
		{"all are new", []finding{strange, strange, strange}, "0 of 3 masters can vote now; a lock needs 2.\nLocks have to wait 12s" + adopt},
		{"time alone does not help", []finding{up, strange, down, refused, down},
			"1 of 5 masters can vote now, 1 more after 12s; a lock needs 3.\n" + none},
		{"one master", []finding{up}, "1 of 1 master can vote now; a lock needs 1.\n" +
			"One master tolerates no failure: while it is down there are no locks. Use three.\n"},
		{"two masters", []finding{up, up}, "2 of 2 masters can vote now; a lock needs 2.\n" +
			"Two masters tolerate no failure, as one does, and two can fail. Use one or three.\n"},
		{"four masters", []finding{up, up, young, down}, "2 of 4 masters can vote now; a lock needs 3.\nLocks have to wait 10s" + adopt +
			"4 masters tolerate 1 failure, as 3 do. Use an odd number.\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &doctor{maxTTL: defaultMaxTTL, agreed: defaultMaxTTL, ttl: defaultRunTTL}
			if got := d.diagnose(tt.findings).String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDiagnosisComparesRoundTripsWithTheNodeTimeout(t *testing.T) {
	const head, far = "3 of 3 masters can vote now; a lock needs 2.\n", "A round trip to the farthest master that a quorum needs takes "
	for _, tt := range []struct {
		name    string
		trips   []time.Duration
		timeout time.Duration // 0: automatic
		tooFar  bool
		want    string
	}{
		{"near", []time.Duration{1, 5, 900}, 0, false, ""},
		{"the quorum is near", []time.Duration{1, 2, 90}, 50, false, ""},
		{"the time-out follows", []time.Duration{1, 90, 91}, 0, false, far + "90ms, so the automatic NodeTimeout is 360ms.\n"},
		{"close to a chosen time-out", []time.Duration{1, 30, 31}, 50, false,
			far + "30ms, more than half of NodeTimeout, 50ms: locks can fail on a busy network. Use a longer NodeTimeout.\n"},
		{"beyond a chosen time-out", []time.Duration{1, 90, 91}, 50, true,
			far + "90ms, longer than NodeTimeout, 50ms: no lock can be acquired. Use a longer NodeTimeout.\n"},
		{"beyond the automatic time-out", []time.Duration{2100, 2100, 2100}, 0, true,
			far + "2.1s, longer than the automatic NodeTimeout, 2s for a TTL of 10s: no lock can be acquired. Use a longer NodeTimeout or TTL.\n" +
				"Connecting takes up to 9 round trips: Options.DialTimeout, 1s by default, may be too short.\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &doctor{maxTTL: defaultMaxTTL, agreed: defaultMaxTTL, ttl: defaultRunTTL, nodeTimeout: tt.timeout * time.Millisecond}
			var findings []finding
			for _, trip := range tt.trips {
				f := found(time.Hour, false)
				f.rtt = trip * time.Millisecond
				findings = append(findings, f)
			}
			got := d.diagnose(findings)
			if got.String() != head+tt.want || got.tooFar() != tt.tooFar {
				t.Errorf("got %q, too far: %t, want %q, %t", got, got.tooFar(), head+tt.want, tt.tooFar)
			}
		})
	}
}
