package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/history"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/programs"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// keysOf returns the keys of a server, without those that stay after a verification: the record, and what tells that a
// client has waited, which expires.
func keysOf(t *testing.T, s *redisserver.Server) (keys []string) {
	t.Helper()
	all, err := redis.Strings(do(t, s, "KEYS", "*"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range all {
		if key != incarnation.Key && !strings.HasPrefix(key, "redlock:waiter:") {
			keys = append(keys, key)
		}
	}
	return keys
}

func TestVerifyShowsWhatItsClientsHeld(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3, "--requirepass", "s3kret")
	var list []string
	for _, s := range servers {
		list = append(list, "redis://:s3kret@"+s.Addr())
	}
	client := openQuietly(t, strings.Join(list, ","), redlock.Options{MaxTTL: time.Second, LockOptions: redlock.LockOptions{TTL: time.Second}})
	if err := client.Locker("before").Do(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	client.Close()

	file := filepath.Join(t.TempDir(), "history.jsonl")
	out, _ := runCommandLine(t, exitOK, "", "verify", "--masters", strings.Join(list, ","), "--for", "2s", "--history", file, "--report", file+".html")
	want(t, out, "3 masters, 6 processes, TTL 1s, for 2s", "history: "+file, "queueing", "unrenewed", "polls", "faults: ",
		"two holders:       0\n", "fences that fell:  0\n", "without an error of the unlock", "What this does not show:")
	for line := range strings.Lines(out) {
		if len(line) > 81 && !strings.HasPrefix(line, "history: ") && !strings.HasPrefix(line, "report: ") && !strings.HasPrefix(line, "waiting") {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	for i, s := range servers {
		if keys := keysOf(t, s); len(keys) > 1 || len(keys) == 1 && keys[0] != "redlock:fence:before" {
			t.Errorf("master %d has the keys %q, want none of the verification", i+1, keys)
		}
		text, _ := redis.String(do(t, s, "GET", incarnation.Key), nil)
		if r, ok := incarnation.Parse(text); !ok || r.MaxTTL != time.Second {
			t.Errorf("master %d has the record %q, want a MaxTTL of 1s", i+1, text)
		}
	}

	// Whoever checks the file later sees the same.
	page := out[strings.Index(out, "CLIENTS "):] // on a busy machine, it begins with what was waited for
	again, _ := runCommandLine(t, exitOK, "", "verify", "--check", file)
	page, _, _ = strings.Cut(page, "\nreport: ")
	if again != page {
		t.Errorf("--check says\n%swant\n%s", again, page)
	}
	_, errOut := runCommandLine(t, exitUsage, "", "verify", "--masters", strings.Join(list, ","), "--history", file)
	want(t, errOut, "redlock: error: --history: open "+file+": file exists")
}

// TestVerifyFindsTwoHolders deletes the keys of a verification by hand again and again. Then its locks cannot exclude anybody. It runs beside no
// other test of the package: on a busy machine, it acquires few locks.
func TestVerifyFindsTwoHolders(t *testing.T) {
	servers := redisserver.AdoptedTB(t, 3)
	stop := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(stop)
	for _, s := range servers {
		all.Go(func() {
			for !isStopped(stop) {
				s.Do("EVAL", "for _, key in ipairs(redis.call('KEYS', 'redlock-verify-*')) do redis.call('DEL', key) end", 0)
				time.Sleep(100 * time.Millisecond) // a client is to acquire a lock meanwhile, on a busy machine, too
			}
		})
	}
	out, errOut := runCommandLine(t, exitFailure, "", "verify", "--masters", listOf(servers), "--for", "8s", "--history", filepath.Join(t.TempDir(), "history.jsonl"))
	want(t, out, "VIOLATION: two holders: ", " together")
	want(t, errOut, "redlock: hint: please report it as a bug of redlock, with the history")
	if strings.Contains(out, "two holders:       0\n") {
		t.Errorf("no two holders were found:\n%s", out)
	}
}

func isStopped(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

func TestVerifyNeedsAllMastersToBegin(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	servers[2].Stop()
	_, errOut := runCommandLine(t, exitNoQuorum, "", "verify", "--masters", listOf(servers), "--for", "2s")
	want(t, errOut, "redlock: error: not all masters answer: ", "must not raise the MaxTTL of a master")
}

// TestACheckFindsWhatIsWrong checks histories that were forged.
func TestACheckFindsWhatIsWrong(t *testing.T) {
	// stay returns the lines of an operation that has entered and left at some second. %s is the number of its fence.
	stay := func(op, name string, entered, left, fence int, more string) string {
		at := func(s int) int64 { return int64(s) * int64(time.Second) }
		return fmt.Sprintf(`{"k":"asked","op":%[1]q,"t":%[3]d,"n":%[2]q,"how":"queueing"}
{"k":"entered","op":%[1]q,"t":%[4]d,"token":"t","fence":%[6]d}
{"k":"held","op":%[1]q,"t":%[5]d}
%[7]s{"k":"leaving","op":%[1]q,"t":%[5]d}
`, op, name, at(entered)-1, at(entered), at(left), fence, more)
	}
	left := func(op string, at int, err string) string {
		return fmt.Sprintf(`{"k":"left","op":%q,"t":%d,"err":%q}`+"\n", op, int64(at)*int64(time.Second), err)
	}
	lost := func(op string, at int) string {
		return fmt.Sprintf(`{"k":"lost","op":%q,"t":%d}`+"\n", op, int64(at)*int64(time.Second))
	}
	for _, tt := range []struct {
		name, text string
		status     int
		out, err   string
	}{
		{"one after the other", stay("0.0.0.1", "a", 10, 20, 1, "") + stay("1.0.0.1", "a", 20, 30, 2, ""), exitOK, "two holders: 0\n", ""},
		{"two holders", stay("0.0.0.1", "a", 10, 20, 1, "") + stay("1.0.0.1", "a", 19, 30, 2, ""), exitFailure,
			`VIOLATION: two holders: 0.0.0.1 held "a" from 10.000000 to 20.000000, and 1.0.0.1 from 19.000000 to 30.000000: 1s together`, "redlock: error: the history has 1 violation"},
		{"two holders of one of several names", stay("0.0.0.1", "a b", 10, 20, 1, "") + stay("1.0.0.1", "b", 15, 16, 2, ""), exitFailure, "two holders: 1, together for 1s", ""},
		{"a fence that falls", stay("0.0.0.1", "a", 10, 20, 7, "") + stay("1.0.0.1", "a", 21, 30, 6, ""), exitFailure, "VIOLATION: fences do not rise:", ""},
		{"a loss that was told", stay("0.0.0.1", "a", 10, 20, 1, lost("0.0.0.1", 21)) + left("0.0.0.1", 22, "lost"), exitOK, "leases lost: 1, of which 0 without", ""},
		{"a loss that was not told", stay("0.0.0.1", "a", 10, 20, 1, lost("0.0.0.1", 21)) + left("0.0.0.1", 22, ""), exitFailure,
			"VIOLATION: loss not told: 0.0.0.1 found its lease", ""},
		{"records that contradict each other", stay("0.0.0.1", "a", 10, 20, 1, "") + left("0.0.0.1", 5, ""), exitFailure, "VIOLATION: no history: 0.0.0.1 has records with times that do not rise", ""},
		{"no lock", `{"k":"ready","op":"","t":5}` + "\n", exitFailure, "locks held:        0", "redlock: error: nobody held a lock, so nothing is shown"},
		{"an empty file", "", exitFailure, "", "history.jsonl: line 1 is missing: the file is empty"},
		{"another file", "# Redlock\n", exitFailure, "", `history.jsonl: line 1 is no record of a history: "# Redlock"`},
		{"a history that is cut off", strings.TrimSuffix(stay("0.0.0.1", "a", 10, 20, 1, ""), "000000000}\n"), exitFailure, "", "history.jsonl: line 4 is cut off"},
		{"a later version", `{"k":"begun","v":2}` + "\n", exitFailure, "", "history.jsonl: line 1 is of a later version: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "history.jsonl")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, errOut := runCommandLine(t, tt.status, "", "verify", "--check", file)
			want(t, out, tt.out)
			want(t, errOut, tt.err)
		})
	}
}

// TestAReportShowsWhatACheckFinds makes a report of a history with two holders.
func TestAReportShowsWhatACheckFinds(t *testing.T) {
	dir := t.TempDir()
	file, page := filepath.Join(dir, "history.jsonl"), filepath.Join(dir, "report.html")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	h := history.NewRecorder(f)
	for i, at := range []int64{1e9, 2e9} {
		op := fmt.Sprintf("%d.0.0.1", i)
		h.Write(history.Record{Kind: history.Asked, Op: op, At: at - 1, Name: "a", How: queueing})
		h.Write(history.Record{Kind: history.Entered, Op: op, At: at, Fence: uint64(i + 1)})
		h.Write(history.Record{Kind: history.Held, Op: op, At: at + 15e8})
	}
	h.Write(history.Record{Kind: history.Fault, Op: "1", At: 1e9, Name: "slow links"})
	h.Write(history.Record{Kind: history.Mended, Op: "1", At: 2e9, Name: "slow links"})
	h.Write(history.Record{Kind: history.Stopped, Op: "0", At: 1e9})
	f.Close()
	out, _ := runCommandLine(t, exitFailure, "", "verify", "--check", file, "--report", page)
	want(t, out, "two holders:       1, together for 500ms", "\nreport: "+page+"\n")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want(t, string(text), "Two clients held a lock at the same time", "the record history.jsonl", "together for 500ms.", "<dt>two holders</dt><dd>1, together",
		`"name":"slow links","from":1000,"to":1001000`, `"name":"","from":1000}`, "clients on other machines")
	for _, at := range []string{page, filepath.Join(dir, "none", "report.html")} {
		_, errOut := runCommandLine(t, exitUsage, "", "verify", "--check", file, "--report", at)
		want(t, errOut, "redlock: error: --report: ", at)
	}
	if again, _ := os.ReadFile(page); string(again) != string(text) {
		t.Error("the report was overwritten")
	}
}

// TestTheProgramOfTheDocumentChecksHistories runs the program that docs/operations.md names on a history, and on one with two
// holders.
func TestTheProgramOfTheDocumentChecksHistories(t *testing.T) {
	programs.Need(t, "python3")
	for _, tt := range []struct {
		name string
		held int
		want string
	}{
		{"none", 20, "0 overlaps"},
		{"two holders", 21, "1 overlaps"},
	} {
		var text strings.Builder
		h := history.NewRecorder(&text)
		for i, at := range []struct{ entered, held int64 }{{10, int64(tt.held)}, {20, 30}} {
			op := fmt.Sprintf("%d.0.0.1", i)
			h.Write(history.Record{Kind: history.Asked, Op: op, At: 1, Name: "a b"[:3-2*i]})
			h.Write(history.Record{Kind: history.Entered, Op: op, At: at.entered, Fence: uint64(i + 1)})
			h.Write(history.Record{Kind: history.Held, Op: op, At: at.held})
		}
		h.Write(history.Record{Kind: history.Fault, Op: "1", At: 5, Name: "slow links"})
		file := filepath.Join(t.TempDir(), "history.jsonl")
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := programs.Command(t, "python3", "../../examples/verify/check.py", file).CombinedOutput()
		if !strings.HasPrefix(string(out), tt.want) || (err != nil) != (tt.held > 20) {
			t.Errorf("%s: %s, %v, want %s", tt.name, out, err, tt.want)
		}
	}
}

// TestAWaitDoesNotCountTheTimeOfAStop checks the longest waits of the result.
func TestAWaitDoesNotCountTheTimeOfAStop(t *testing.T) {
	h := history.New()
	for _, r := range []history.Record{
		{Kind: history.Asked, Op: "4.0.0.1", At: 1e9, Name: "a", How: unrenewed},
		{Kind: history.Stopped, Op: "4", At: 2e9}, {Kind: history.Continued, Op: "4", At: 5e9},
		{Kind: history.Stopped, Op: "3", At: 2e9}, {Kind: history.Continued, Op: "3", At: 6e9},
		{Kind: history.Refused, Op: "4.0.0.1", At: 6e9, Err: "the run has ended"},
	} {
		h.Add(r)
	}
	if got := judge(h).kinds[unrenewed].wait(1); got != "2s" {
		t.Errorf("the longest wait is %s, want 2s", got)
	}
}
