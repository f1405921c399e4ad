package incarnation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/incarnation"
)

const run = "0123456789abcdef0123456789abcdef01234567"

func TestParseAcceptsOnlyRecords(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_123_456)
	for _, row := range []struct {
		text string
		want incarnation.Record
		ok   bool
	}{
		{run + " 1700000000123456 0 0 -", incarnation.Record{Run: run, Since: at, Database: "0", Evicted: "-"}, true},
		{run + " 1700000000123456 15 0 - adopted", incarnation.Record{Run: run, Since: at, Database: "15", Evicted: "-", Adopted: true}, true},
		{"- 1700000000123456 - 0 -", incarnation.Record{Run: incarnation.Unknown, Since: at, Database: incarnation.Unknown, Evicted: "-"}, true},
		{run + " 1700000000123456 0 10000 -", incarnation.Record{Run: run, Since: at, Database: "0", Evicted: "-", MaxTTL: 10 * time.Second}, true},
		{run + " 1700000000123456 0 0 - adopted", incarnation.Record{Run: run, Since: at, Database: "0", Evicted: "-", Adopted: true}, true},
		{run + " 1700000000123456 0 604800000 - adopted", incarnation.Record{Run: run, Since: at, Database: "0", Evicted: "-", MaxTTL: incarnation.MaxTTLMost, Adopted: true}, true},
		{text: run + " 1700000000123456 0 604800001 -"},
		{text: run + " 1700000000123456 0 0000000010 -"},
		{text: run + " 1700000000123456 0 -1 -"},
		{text: run + " 1700000000123456 0 1e3 -"},
		{run + " 1700000000123456 0 10000 17", incarnation.Record{Run: run, Since: at, Database: "0", MaxTTL: 10 * time.Second, Evicted: "17"}, true},
		{run + " 1700000000123456 0 10000 - adopted", incarnation.Record{Run: run, Since: at, Database: "0", MaxTTL: 10 * time.Second, Evicted: "-", Adopted: true}, true},
		{text: run + " 1700000000123456 0 1 2 3"},
		{text: run + " 1700000000123456 0 1 -2"},
		{text: run + " 1700000000123456 0 1 000000000000000000017"},
		{run + " 1700000000123456 0 0 - adopted 1", incarnation.Record{Run: run, Since: at, Database: "0", Evicted: "-", Adopted: true, Masters: 1}, true},
		{run + " 1700000000123456 0 10000 17 adopted 64", incarnation.Record{Run: run, Since: at, Database: "0", MaxTTL: 10 * time.Second, Evicted: "17", Adopted: true, Masters: 64}, true},
		{text: run + " 1700000000123456 0 0 - adopted 0"},
		{text: run + " 1700000000123456 0 0 - adopted 03"},
		{text: run + " 1700000000123456 0 0 - adopted 100"},
		{text: run + " 1700000000123456 0 0 - adopted +3"},
		{text: run + " 1700000000123456 0 0 - adopted adopted"},
		{text: run + " 1700000000123456 0 0 - adopted 3 3"},
		{text: ""},
		{text: run},
		{text: run + " 1700000000123456 0"},
		{text: run + " 1700000000123456 0 10000"},
		{text: run + " 1700000000123456 0 10000 adopted"},
		{text: run + " 1700000000123456"},
		{text: run + " 1700000000123456 0 forgotten"},
		{text: run + " 1700000000123456 0 0 - adopted twice"},
		{text: run + " yesterday 0"},
		{text: run + " 99999999999999999999 0 0 -"},
		{text: run + "  1700000000123456 0 0 -"},
	} {
		got, ok := incarnation.Parse(row.text)
		if ok {
			row.want.Text = row.text
		}
		if ok != row.ok || got != row.want {
			t.Errorf("Parse(%q) = %+v, %v, want %+v, %v", row.text, got, ok, row.want, row.ok)
		}
	}
	now := time.Now()
	for _, id := range []string{run, incarnation.Unknown} {
		if r := incarnation.Adopted(now, id).Record; !r.Adopted || r.Run != id || !r.Since.Equal(now.Truncate(time.Microsecond)) {
			t.Errorf("Adopted(%q) = %+v, want a record with this run_id, adopted now", id, r)
		}
	}
}

func TestAgeIsByTheMastersClock(t *testing.T) {
	r, _ := incarnation.Parse(run + " 1700000000000000 0 0 -")
	now := time.UnixMicro(1_700_000_007_000_000)
	if got := (incarnation.Inspection{Record: r, Now: now}).Age(); got != 7*time.Second {
		t.Errorf("Age = %v, want 7s", got)
	}
	if got := (incarnation.Inspection{Now: now}).Age(); got != 0 {
		t.Errorf("Age without a record = %v, want 0", got)
	}
}

func TestTheDatabaseIsFoundInClientInfo(t *testing.T) {
	for info, want := range map[string]string{
		"id=3 addr=127.0.0.1:6379 name=db=7 db=2 sub=0\n": "2",
		"id=3 db=11": "11",
		"id=3":       incarnation.Unknown,
		"":           incarnation.Unknown,
	} {
		if got := incarnation.DatabaseOf(info); got != want {
			t.Errorf("DatabaseOf(%q) = %q, want %q", info, got, want)
		}
	}
}

// Each record expires at a moment of its own, which distinguishes it from other records.
func TestRecordsDifferInTheirExpiry(t *testing.T) {
	seen := make(map[int64]bool)
	for i := range 1000 {
		r, _ := incarnation.Parse(fmt.Sprintf("%s %d 0 0 -", run, 1_700_000_000_000_000+int64(i)))
		at := incarnation.Know(incarnation.Inspection{Record: r}).Expiry()
		if at.Year() < 2099 || at.Year() > 2101 {
			t.Fatalf("a record expires at %v, want about the year 2100", at)
		}
		seen[at.UnixMilli()] = true
	}
	if len(seen) != 1000 {
		t.Errorf("1000 records expire at %d moments", len(seen))
	}
}

func TestAProbeWantsTheRecordAndTheScript(t *testing.T) {
	r, _ := incarnation.Parse(run + " 1700000000000000 0 0 -")
	k := incarnation.Know(incarnation.Inspection{Record: r})
	now := time.UnixMilli(1_700_000_001_234)
	left := k.Expiry().Sub(now).Milliseconds()
	for _, row := range []struct {
		name  string
		reply any
		want  bool
	}{
		{"both are there", left, true},
		{"the record is gone", int64(-2), false},
		{"the record lives for ever", int64(-1), false},
		{"an error, since the script is gone", nil, false},
		{"a reply of another type", "OK", false},
		{"a list", []any{left}, false},
	} {
		got, there := k.Probed(row.reply)
		if there != row.want || there && !got.Equal(now) {
			t.Errorf("%s: Probed = %v, %v, want %v, %v", row.name, got, there, now, row.want)
		}
	}
}

func TestEveryReasonIsASentence(t *testing.T) {
	seen := make(map[string]bool)
	for _, why := range []incarnation.Why{incarnation.Holds, incarnation.Absent, incarnation.Restart, incarnation.Database, incarnation.Clock, incarnation.Stale, "else"} {
		if s := why.String(); !strings.HasPrefix(s, "it") || seen[s] {
			t.Errorf("%q: %q, want a sentence of its own", string(why), s)
		} else {
			seen[s] = true
		}
	}
}
