package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
)

// doctor runs `redlock doctor` on masters, wants this exit status, and returns what it said.
func doctor(t *testing.T, status int, masters string, flags ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	args := slices.Concat([]string{"redlock", "doctor", "--masters", masters}, flags)
	if got := run(t.Context(), args, strings.NewReader(""), &out, &errOut); got != status {
		t.Errorf("exit status %d, want %d:\n%s%s", got, status, out.String(), errOut.String())
	}
	if errOut.Len() > 0 {
		t.Errorf("standard error %q, want nothing", errOut.String())
	}
	if strings.Contains(out.String(), "s3kret") {
		t.Errorf("the output shows a password:\n%s", out.String())
	}
	return out.String()
}

// row returns the cells of a master's line in the table.
func row(t *testing.T, out, name string) (votes, role, why string) {
	t.Helper()
	_, table, _ := strings.Cut(out, "MASTER ")
	for line := range strings.Lines(table) {
		var cells []string
		for cell := range strings.SplitSeq(strings.TrimSpace(line), "  ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				cells = append(cells, cell)
			}
		}
		if len(cells) == 4 && cells[0] == name {
			return cells[1], cells[2], cells[3]
		}
	}
	t.Fatalf("no line on %s in:\n%s", name, out)
	return "", "", ""
}

// wantRow wants a master's line so, the last cell at its beginning.
func wantRow(t *testing.T, out, name, votes, role, why string) {
	t.Helper()
	gotVotes, gotRole, gotWhy := row(t, out, name)
	if gotVotes != votes || gotRole != role || !strings.HasPrefix(gotWhy, why) {
		t.Errorf("%s: %q, %q, %q, want %q, %q, %q…", name, gotVotes, gotRole, gotWhy, votes, role, why)
	}
}

func TestDoctorChangesNothingUntilItAdopts(t *testing.T) {
	servers, masters := freshMasters(t, 3)
	for range 2 {
		out := doctor(t, exitNoQuorum, masters)
		want(t, out, "0 of 3 masters may vote at once; a lock needs 2. A first Lock will wait 12s", "redlock doctor --adopt")
		for _, s := range servers {
			wantRow(t, out, s.Addr(), "not yet", "not told", "no record: new to redlock, or has lost its memory")
			if keys := s.Keys(); len(keys) > 0 {
				t.Errorf("doctor has written %q", keys)
			}
		}
	}
	want(t, doctor(t, exitNoQuorum, masters, "--max-ttl", "1h"), "will wait 1h0m2s", "MaxTTL of 1h0m0s")

	out := doctor(t, exitOK, masters, "--adopt")
	want(t, out, "\n3 of 3 masters may vote at once; a lock needs 2.\n")
	for _, s := range servers {
		want(t, out, s.Addr()+": adopted\n")
		wantRow(t, out, s.Addr(), "yes", "not told", "adopted 2")
	}
	want(t, doctor(t, exitOK, masters, "--adopt"), servers[0].Addr()+": was adopted before\n")
	doctor(t, exitOK, masters)

	// The library agrees.
	client, err := redlock.Open(strings.Split(masters, ","), &redlock.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("after the adoption Ping = %v, want nil", err)
	}
}

func TestDoctorOnWhatIsNoRedis(t *testing.T) {
	for _, tt := range []struct{ name, says, want string }{
		{"another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n", "not reachable: "},
		{"a reply that fills all memory", "$999999999999\r\n", "not reachable: "},
		{"an end", "", "not reachable: "},
		{"an error of two lines", "-ERR one\rtwo\r\n", "does not let us in: ERR one two"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						buf := make([]byte, 4096)
						for {
							if _, err := conn.Read(buf); err != nil || tt.says == "" {
								return
							}
							io.WriteString(conn, tt.says)
						}
					}()
				}
			}()
			_, _, why := row(t, doctor(t, exitNoQuorum, l.Addr().String()), l.Addr().String())
			if !strings.HasPrefix(why, tt.want) {
				t.Errorf("why: %q, want %q…", why, tt.want)
			}
		})
	}
}

func TestDoctorIsInterrupted(t *testing.T) {
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

func TestPlainNamesNoPassword(t *testing.T) {
	m, err := parseMaster("redis://u:s3kret@h:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"a timeout", fmt.Errorf("dial: %w", context.DeadlineExceeded), "no answer within 1s"},
		{"an address", &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}, "connection refused"},
		{"two lines", errors.New("one\r\n two"), "one two"},
		{"a URL", errors.New(`dial "redis://u:s3kret@h:1"`), `dial "h:1"`},
		{"the end", fmt.Errorf("read: %w", io.EOF), "read: it closes the connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := plain(m, tt.err); got.Error() != strings.TrimPrefix(tt.want, "read: ") {
				t.Errorf("plain(%v) = %q, want %q", tt.err, got, tt.want)
			}
		})
	}
}

// found returns a finding with a record of this age.
func found(age time.Duration, adopted bool) finding {
	now := time.Now()
	return finding{name: "h:1", role: "master", run: "r", look: incarnation.Look{
		Record: incarnation.Record{Text: "r", Since: now.Add(-age), Adopted: adopted}, Now: now,
	}}
}

func TestVotesAndWhy(t *testing.T) {
	with := func(f finding, change func(*finding)) finding {
		change(&f)
		return f
	}
	for _, tt := range []struct {
		name       string
		f          finding
		votes, why string
	}{
		{"old", found(50*time.Hour, false), "yes", ", for 2 days"},
		{"of some hours", found(3*time.Hour+12*time.Minute+9*time.Second, false), "yes", ", for 3h12m"},
		{"just old enough", found(12*time.Second, false), "yes", ", for 12s"},
		{"not old enough", found(11500*time.Millisecond, false), "in 1s", ", for 11s"},
		{"young", found(0, false), "in 12s", ", for 0s"},
		{"adopted", found(time.Second, true), "yes", ", 1s ago"},
		{"of the future", with(found(0, true), func(f *finding) { f.look.Why = incarnation.Clock }), "not yet", "its record does not hold: its clock was set back"},
		{"tells no run_id", with(found(time.Hour, false), func(f *finding) { f.run = "" }), "yes", "is not noticed"},
		{"clock ahead", with(found(time.Hour, false), func(f *finding) { f.ahead = 2100 * time.Millisecond }), "yes", "; its clock is 2.1s ahead of ours"},
		{"clock behind", with(found(time.Hour, false), func(f *finding) { f.ahead = -time.Minute }), "yes", "; its clock is 1m0s behind ours"},
		{"clock off by little", with(found(time.Hour, false), func(f *finding) { f.ahead = clockTolerance }), "yes", ", for 1h0m"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if votes, why := tt.f.votes(12*time.Second), tt.f.why(); votes != tt.votes || !strings.HasSuffix(why, tt.why) {
				t.Errorf("votes %q, why %q, want %q, …%q", votes, why, tt.votes, tt.why)
			}
		})
	}
}

func TestDiagnosis(t *testing.T) {
	up, young, middle := found(time.Hour, false), found(2*time.Second, false), found(6*time.Second, false)
	strange := finding{look: incarnation.Look{Why: incarnation.Absent}}
	down, refused := finding{unheard: errors.New("x")}, finding{refusal: errors.New("x")}
	for _, tt := range []struct {
		name     string
		findings []finding
		want     string
	}{
		{"all", []finding{up, up, up}, "3 of 3 masters may vote at once; a lock needs 2.\n"},
		{"enough", []finding{up, down, up, young, up}, "3 of 5 masters may vote at once; a lock needs 3.\n"},
		{"one needed", []finding{up, young, middle}, "1 of 3 masters may vote at once; a lock needs 2. A first Lock will wait 6s,"},
		{"all needed", []finding{young, middle, strange}, "0 of 3 masters may vote at once; a lock needs 2. A first Lock will wait 10s,"},
		{"new", []finding{strange, strange, strange}, "0 of 3 masters may vote at once; a lock needs 2. A first Lock will wait 12s,"},
		{"even", []finding{up, up, young, down}, "2 of 4 masters may vote at once; a lock needs 3. A first Lock will wait 10s,"},
		{"time alone does not help", []finding{up, strange, down, refused, down},
			"1 of 5 masters may vote at once, 1 more after 12s; a lock needs 3: there is none to be had before others are back.\n"},
		{"nobody", []finding{down}, "0 of 1 master may vote at once; a lock needs 1: there is none to be had before others are back.\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := diagnose(tt.findings, defaultMaxTTL).String(); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %q, want %q…", got, tt.want)
			}
		})
	}
}
