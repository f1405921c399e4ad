package wire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// What the script does for fencing, call by call, on one master.
func TestTheScriptGivesAndFixesFences(t *testing.T) {
	needsLongIntegers(t)
	m := miniredis.RunT(t)
	now := time.UnixMilli(1_800_000_000_000)
	m.SetTime(now)
	conn, err := redis.Dial("tcp", m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const fence = "redlock:fence:a"
	at := func(ticks int64) int64 { return now.UnixMilli()*4 + ticks }
	poison := at(400 * 24 * 3600 * 4000)
	word := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }
	pair := func(value, fence int64) any { return []any{value, fence} }
	for _, step := range []struct {
		name        string
		what, token string
		want        any // nil: an error
		key         string
		kept        int64 // the fence that is stored afterwards; -1: any
	}{
		{"the proposal is given", word("acquire 9000 - - %d", at(5)), "A", pair(1, at(5)), "A", at(5)},
		{"again, to the same token: what it was given", word("acquire 9000 - - %d", at(7)), "A", pair(1, at(5)), "A", at(5)},
		{"a refusal tells the fence", word("acquire 9000 - - %d", at(7)), "B", pair(-9002, at(5)), "A", at(5)},
		{"a lower one is not exact", word("commit %d", at(4)), "A", pair(-2, at(5)), "A", at(5)},
		{"the same is", word("commit %d", at(5)), "A", pair(1, at(5)), "A", at(5)},
		{"a higher one raises it", word("commit %d", at(8)), "A", pair(1, at(8)), "A", at(8)},
		{"not for another token", word("commit %d", at(20)), "B", pair(-1, 0), "A", at(8)},
		{"released", "release", "A", int64(1), "", at(8)},
		{"not without a key", word("commit %d", at(20)), "A", pair(0, 0), "", at(8)},
		{"one above the last, if the proposal is not", word("acquire 9000 - - %d", at(3)), "C", pair(1, at(9)), "C", at(9)},
		{"released", "release", "C", int64(1), "", at(9)},
		{"no more than a second ahead of the clock", word("acquire 9000 - - %d", at(60_000)), "D", pair(1, at(4000)), "D", at(4000)},
		{"released", "release", "D", int64(1), "", at(4000)},
		{"a heal sets the key and leaves a higher fence", word("heal 9000 %d", at(2)), "D", int64(1), "D", at(4000)},
		{"a heal of a key that is there does nothing", word("heal 9000 %d", at(8000)), "E", int64(0), "D", at(4000)},
		{"released", "release", "D", int64(1), "", at(4000)},
		{"a heal raises a lower one", word("heal 9000 %d", at(8000)), "D", int64(1), "D", at(8000)},
		{"a commit raises a lower one, to 2 s ahead of the clock at most", word("commit %d", at(8001)), "D", nil, "D", at(8000)},
		{"but what is there already is exact", word("commit %d", at(8000)), "D", pair(1, at(8000)), "D", at(8000)},
		{"released", "release", "D", int64(1), "", at(8000)},
		{"nor does a heal, which makes no key then", word("heal 9000 %d", at(8001)), "D", nil, "", at(8000)},
		{"poisoned", "", "", nil, "", poison},
		{"one above it is given", word("acquire 9000 - - %d", at(9)), "P", pair(1, poison+1), "P", poison + 1},
		{"a refusal tells it", word("acquire 9000 - - %d", at(9)), "Q", pair(-9002, poison+1), "P", poison + 1},
		{"a lower one is not committed", word("commit %d", at(9)), "P", pair(-2, poison+1), "P", poison + 1},
		{"released", "release", "P", int64(1), "", poison + 1},
		{"broken", "", "", nil, "", -1},
		{"what cannot be fenced is not acquired", word("acquire 9000 - - %d", at(5)), "F", nil, "", -1},
		{"nor healed", word("heal 9000 %d", at(5)), "F", nil, "", -1},
		{"but acquired without a fence", "acquire 9000 -", "F", int64(1), "F", -1},
	} {
		if step.name == "poisoned" {
			m.Set(fence, fmt.Sprint(poison))
			m.SetTTL(fence, time.Hour)
			continue
		}
		if step.name == "broken" { // another program has stored something else
			m.Del(fence)
			m.Lpush(fence, "x")
			continue
		}
		got, err := conn.Do("EVAL", batchLua.text(), 1, "a", "", step.what, step.token)
		if (err != nil) != (step.want == nil) || err == nil && !reflect.DeepEqual(got, step.want) {
			t.Fatalf("%s: %q answers %v (%v), want %v", step.name, step.what, got, err, step.want)
		}
		if key, _ := m.Get("a"); key != step.key {
			t.Fatalf("%s: the key holds %q, want %q", step.name, key, step.key)
		}
		if text, _ := m.Get(fence); step.kept >= 0 && text != fmt.Sprint(step.kept) {
			t.Fatalf("%s: the fence kept is %s, want %d", step.name, text, step.kept)
		}
	}
}

// A fence lives until a day after its moment, unless it is of no use to any client.
func TestAFenceFarAheadIsNotRenewed(t *testing.T) {
	const day = 24 * time.Hour
	for _, row := range []struct {
		name        string
		ahead, life time.Duration // of the fence that is kept; life 0: for ever
		want        time.Duration // the life of the fence that was given then
	}{
		{"behind the clock", -time.Hour, time.Minute, day},
		{"a little ahead", 2*time.Second - FenceTick, time.Minute, day},
		{"3 s ahead", 3 * time.Second, time.Minute, day + 3*time.Second},
		{"3 days ahead", 3 * day, time.Minute, 4 * day},
		{"400 days ahead", 400 * day, time.Minute, time.Minute},
		{"400 days ahead, for ever", 400 * day, 0, day},
	} {
		m := miniredis.RunT(t)
		now := time.UnixMilli(1_800_000_000_000)
		m.SetTime(now)
		m.Set("redlock:fence:a", fmt.Sprint(now.Add(row.ahead).UnixMicro()/FenceTick.Microseconds()))
		m.SetTTL("redlock:fence:a", row.life)
		conn, err := redis.Dial("tcp", m.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Do("EVAL", batchLua.text(), 1, "a", "", fmt.Sprintf("acquire 9000 - - %d", now.UnixMicro()/250), "token"); err != nil {
			t.Fatal(err)
		}
		if got := m.TTL("redlock:fence:a"); (got - row.want).Abs() > time.Millisecond {
			t.Errorf("%s: the fence lives for %v, want %v", row.name, got, row.want)
		}
		conn.Close()
	}
}

// A stored value that is not one of redlock's numbers is an error, and is not changed.
func TestAFenceThatIsNoNumberIsAnError(t *testing.T) {
	for _, kept := range []string{"", "x", "nan", "inf", "-5", "1e300", "1.5", "0x10", " 7", "9999999999999999", "99999999999999999999999"} {
		m := miniredis.RunT(t)
		conn, err := redis.Dial("tcp", m.Addr())
		if err != nil {
			t.Fatal(err)
		}
		m.Set("redlock:fence:a", kept)
		for _, what := range []string{"acquire 9000 - - 5", "heal 9000 5"} {
			got, err := conn.Do("EVAL", batchLua.text(), 1, "a", "", what, "token")
			if err == nil || !strings.Contains(err.Error(), "is not a number") || m.Exists("a") {
				t.Errorf("%q over the fence %q answers %v (%v), the key exists: %t, want an error and no key", what, kept, got, err, m.Exists("a"))
			}
		}
		m.Set("a", "another's")
		for _, what := range []string{"acquire 9000 - - 5", "register 9000 - 400f 5"} { // the answer to a refusal has the fence
			if got, err := conn.Do("EVAL", batchLua.text(), 1, "a", "", what, "token"); err == nil || !strings.Contains(err.Error(), "is not a number") {
				t.Errorf("%q of another's key over the fence %q answers %v (%v), want an error", what, kept, got, err)
			}
		}
		m.Set("a", "token")
		if got, err := conn.Do("EVAL", batchLua.text(), 1, "a", "", "commit 5", "token"); err == nil {
			t.Errorf("commit over the fence %q answers %v, want an error", kept, got)
		}
		if got, _ := m.Get("redlock:fence:a"); got != kept {
			t.Errorf("the fence %q became %q", kept, got)
		}
		conn.Close()
	}
}
