package wire

import (
	"crypto/sha1"
	"fmt"
	"strings"
	"testing"
	"unicode"
)

// The text of a process is a script with another line in the place of runLine. Anything but a run_id of Redis is not put into a script.
func TestTheTextsOfAProcessHaveItsRunID(t *testing.T) {
	run := strings.Repeat("0123456789abcdef", 3)[:40]
	own := OwnOf(run)
	for i, script := range []*lua{batchLua, slotsLua} {
		text := own.Texts()[i]
		if Name(text) != Name(script.text()) || Name(text+" ") != "" || own.sha(script) != sha1Of(text) {
			t.Errorf("the text of %s for a process is not told from others", Name(script.text()))
		}
		if strings.Count(text, run) != 1 || strings.Replace(text, "run = '"+run+"'\n", runLine, 1) != script.text() {
			t.Errorf("the text for %s is not %s.lua with that", run, Name(script.text()))
		}
	}
	if own.sha(setLua) != nil || (*Own)(nil).sha(batchLua) != nil {
		t.Error("there is a text that no process has")
	}
	for _, bad := range []string{"", "-", run[1:], run + "0", "'" + run[2:] + "'", strings.ToUpper(run)} {
		if OwnOf(bad) != nil {
			t.Errorf("there is a text for the run_id %q", bad)
		}
	}
}

func sha1Of(text string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(text))) }

// FuzzInfo checks what is read from INFO: a field is one line without a line break, and a reason to refuse the
// server is one printable line.
func FuzzInfo(f *testing.F) {
	for _, info := range []string{
		"", "# Server\r\nredis_version:7.0.15\r\nrun_id:0123\r\nrole:master\r\n",
		"role:slave\r\n", "role:\x1b[31mmaster\r\n", "cluster_enabled:1\r\n", "maxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n",
		"maxmemory:1\r\nmaxmemory_policy:\x1b]0;x\x07\r\n", "redis_version:6\r\n", "redis_version:-7.0\r\n", "run_id:\r\nrun_id:1", ":\n:", "role",
	} {
		f.Add(info)
	}
	f.Fuzz(func(t *testing.T, info string) {
		for _, field := range []string{"run_id", "role", "redis_version", "maxmemory", "maxmemory_policy", "cluster_enabled", ""} {
			got := InfoField(info, field)
			if strings.ContainsAny(got, "\n") || got != strings.TrimSpace(got) {
				t.Errorf("field %q = %q, want one trimmed line", field, got)
			}
			if got != "" && !strings.Contains(info, field+":") {
				t.Errorf("field %q = %q, but INFO has no such field", field, got)
			}
		}
		IsLegacy(info)
		if err := Judge(info); err != nil && strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("Judge(%q) = %q, want printable text", info, err)
		}
	})
}

// It is asked of each answer of a master.
func TestToAskWhetherASuccessRefusesWritesAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { RefusesWrites(nil) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
