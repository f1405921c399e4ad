package master

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// The script's half of fencing, one call after the other on one master.
func TestTheScriptGivesAndFixesFences(t *testing.T) {
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
	word := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }
	pair := func(value, fence int64) any { return []any{value, fence} }
	for _, step := range []struct {
		name        string
		what, token string
		want        any // nil: an error
		key         string
		kept        int64 // the fence that is kept then; -1: whatever
	}{
		{"the proposal is given", word("acquire 9000 - %d", at(5)), "A", pair(1, at(5)), "A", at(5)},
		{"again, to the same token: what it was given", word("acquire 9000 - %d", at(7)), "A", pair(1, at(5)), "A", at(5)},
		{"a refusal tells the fence", word("acquire 9000 - %d", at(7)), "B", pair(-9002, at(5)), "A", at(5)},
		{"a lower one is not exact", word("commit %d", at(4)), "A", pair(-2, at(5)), "A", at(5)},
		{"the same is", word("commit %d", at(5)), "A", pair(1, at(5)), "A", at(5)},
		{"a higher one raises it", word("commit %d", at(8)), "A", pair(1, at(8)), "A", at(8)},
		{"not for another token", word("commit %d", at(20)), "B", pair(-1, 0), "A", at(8)},
		{"released", "release", "A", int64(1), "", at(8)},
		{"not without a key", word("commit %d", at(20)), "A", pair(0, 0), "", at(8)},
		{"one above the last, if the proposal is not", word("acquire 9000 - %d", at(3)), "C", pair(1, at(9)), "C", at(9)},
		{"released", "release", "C", int64(1), "", at(9)},
		{"no more than a second ahead of the clock", word("acquire 9000 - %d", at(60_000)), "D", pair(1, at(4000)), "D", at(4000)},
		{"released", "release", "D", int64(1), "", at(4000)},
		{"a heal sets the key and leaves a higher fence", word("heal 9000 %d", at(2)), "D", int64(1), "D", at(4000)},
		{"a heal of a key that is there does nothing", word("heal 9000 %d", at(8000)), "E", int64(0), "D", at(4000)},
		{"released", "release", "D", int64(1), "", at(4000)},
		{"a heal raises a lower one", word("heal 9000 %d", at(12_000)), "D", int64(1), "D", at(12_000)},
		{"released", "release", "D", int64(1), "", at(12_000)},
		{"broken", "", "", nil, "", -1},
		{"what cannot be fenced is not acquired", word("acquire 9000 - %d", at(5)), "F", nil, "", -1},
		{"nor healed", word("heal 9000 %d", at(5)), "F", nil, "", -1},
		{"but acquired without a fence", "acquire 9000 -", "F", int64(1), "F", -1},
	} {
		if step.name == "broken" { // somebody keeps something else there
			m.Del(fence)
			m.Lpush(fence, "x")
			continue
		}
		got, err := conn.Do("EVAL", batchScript, 1, "a", "", step.what, step.token)
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
