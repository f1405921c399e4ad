package wire

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// onEachServer runs f on an embedded server and on a real one.
func onEachServer(t *testing.T, f func(t *testing.T, conn redis.Conn)) {
	t.Run("miniredis", func(t *testing.T) {
		conn, err := redis.Dial("tcp", miniredis.RunT(t).Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		f(t, conn)
	})
	t.Run("redis", func(t *testing.T) {
		server := redisserver.StartTB(t, 1)[0]
		watchKeys(t, server.Addr())
		f(t, dialAs(t, server))
	})
}

// callSet calls set.lua on keys.
func callSet(conn redis.Conn, keys []string, id, word string, proposal any, token string, earlier ...string) (any, error) {
	args := redis.Args{setLua.text(), len(keys)}.AddFlat(keys).Add(id, word, 9000, proposal, token).AddFlat(earlier)
	return conn.Do("EVAL", args...)
}

func TestTheScriptForSeveralNamesSetsAllKeysOrNone(t *testing.T) {
	onEachServer(t, func(t *testing.T, conn redis.Conn) {
		three := func(a, b, c int64) any { return []any{a, b, c, int64(0)} }
		for _, step := range []struct {
			name    string
			before  []any // a command
			keys    string
			word    string
			token   string
			earlier []string
			want    any
			values  string // of a, b and c afterwards; - means that there is none
		}{
			{"all are free", nil, "abc", "acquire", "T", nil, int64(1), "TTT"},
			{"the same again", nil, "abc", "acquire", "T", nil, int64(1), "TTT"},
			{"all are held", nil, "bc", "acquire", "U", nil, three(-9002, 0, either), "TTT"},
			{"one of them is free", []any{"DEL", "a", "b"}, "abc", "acquire", "U", nil, three(-9002, 0, 3), "--T"},
			{"the held one does not expire", []any{"SET", "b", "X"}, "abc", "acquire", "U", nil, three(-1, 0, 2), "-XT"},
			{"both are ours from before", nil, "bc", "acquire", "V", []string{"X", "T"}, int64(1), "-VV"},
			{"one is ours, one is free", nil, "ab", "acquire", "W", []string{"Q", "V"}, int64(1), "WWV"},
			{"one is ours, one is another's", nil, "bc", "acquire", "U", []string{"W", "W"}, three(-9002, 0, 2), "WWV"},
			{"the tokens belong to one key each", nil, "bc", "acquire", "U", []string{"V", "W"}, three(-9002, 0, either), "WWV"},
			{"a value that is no lock", []any{"DEL", "a", "b", "c"}, "", "", "", nil, nil, "---"},
			{"", []any{"HSET", "b", "x", "y"}, "abc", "acquire", "U", nil, three(-1, 0, 2), "-?-"},
			{"behind a queue", []any{"DEL", "b"}, "", "", "", nil, nil, "---"},
			{"", []any{"ZADD", "redlock:queue:c", 1, "other"}, "abc", "behind", "U", nil, three(-1, 0, 3), "---"},
			{"but not if the first word is acquire", nil, "abc", "acquire", "U", nil, int64(1), "UUU"},
			{"no release with a queue", nil, "abc", "follow", "V", []string{"U", "U", "U"}, nil, "UUU"},
			{"a release and an acquisition", []any{"DEL", "redlock:queue:c"}, "abc", "follow", "V", []string{"U", "U", "U"}, int64(1), "VVV"},
			{"no release of another's key", []any{"SET", "b", "X"}, "abc", "follow", "W", []string{"V", "V", "V"}, nil, "VXV"},
			{"no release of a key for which readers wait", []any{"ZADD", "redlock:rqueue:c", 1, "other"}, "abc", "follow", "W", []string{"V", "X", "V"}, nil, "VXV"},
			{"nobody but readers is in the way", []any{"SET", "a", ReadersMarker, "PX", 8990}, "ac", "acquire", "W", []string{"", "V"}, []any{int64(-9002), int64(0), int64(1), int64(1)}, "RXV"},
			{"readers and another", nil, "abc", "acquire", "W", []string{"", "", "V"}, []any{int64(-1), int64(0), int64(2), int64(0)}, "RXV"},
			{"", []any{"DEL", "a", "redlock:rqueue:c"}, "", "", "", nil, nil, "-XV"},
			{"", []any{"SET", "a", "V"}, "", "", "", nil, nil, "VXV"},
			{"no release of a missing key", []any{"DEL", "b"}, "abc", "follow", "W", []string{"V", "V", "V"}, nil, "V-V"},
		} {
			if step.before != nil {
				if _, err := conn.Do(step.before[0].(string), step.before[1:]...); err != nil {
					t.Fatal(err)
				}
			}
			if step.keys != "" {
				keys := []string{}
				for _, key := range step.keys {
					keys = append(keys, string(key))
				}
				got, err := callSet(conn, keys, "me", step.word, "", step.token, step.earlier...)
				if (err != nil) != (step.want == nil) || err == nil && !reflect.DeepEqual(near(got, step.want), step.want) {
					t.Errorf("%s: the script answers %v, %v, want %v", step.name, got, err, step.want)
				}
			}
			values := ""
			for _, key := range []string{"a", "b", "c"} {
				value, err := redis.String(conn.Do("GET", key))
				switch {
				case err == redis.ErrNil:
					value = "-"
				case err != nil:
					value = "?"
				case value == ReadersMarker:
					value = "R"
				}
				values += value
			}
			if values != step.values {
				t.Errorf("%s: the keys hold %s, want %s", step.name, values, step.values)
			}
		}
	})
}

// A client goes behind those that queue for one of the names, unless it acquires out of turn.
func TestTheScriptForSeveralNamesGoesBehindQueues(t *testing.T) {
	onEachServer(t, func(t *testing.T, conn redis.Conn) {
		for _, row := range []struct {
			name     string
			queued   bool // for b
			held     bool // a, by another client
			word     string
			proposal any
			want     any // nil: it is acquired
		}{
			{"nobody queues", false, false, "behind", 5, nil},
			{"somebody queues", true, false, "behind", 5, []any{int64(-1), int64(0), int64(2), int64(0)}},
			{"somebody queues, and no fence is wanted", true, false, "behind", "", []any{int64(-1), int64(0), int64(2), int64(0)}},
			{"somebody queues, and one is held", true, true, "behind", "", []any{int64(-9002), int64(0), int64(1), int64(0)}},
			{"out of turn", true, false, "acquire", 5, nil},
		} {
			conn.Send("FLUSHALL")
			if row.queued {
				conn.Send("ZADD", "redlock:queue:b", 1, "other O 400")
			}
			if row.held {
				conn.Send("SET", "a", "X", "PX", 9000)
			}
			if _, err := conn.Do(""); err != nil {
				t.Fatal(err)
			}
			got, err := callSet(conn, []string{"a", "b"}, "me", row.word, row.proposal, "T")
			if list, ok := got.([]any); row.want == nil && ok && len(list) == 4 {
				got = list[0]
			}
			want := row.want
			if want == nil {
				want = int64(1)
			}
			if err != nil || !reflect.DeepEqual(near(got, want), want) {
				t.Errorf("%s: answered %v (%v), want %v", row.name, got, err, want)
			}
			if n, _ := redis.Int(conn.Do("EXISTS", "a", "b")); row.want == nil && n != 2 || row.want != nil && n == 2 {
				t.Errorf("%s: %d of two keys are there", row.name, n)
			}
		}
	})
}

func TestAUserWhoMayNotSetKeysAcquiresNoneOfSeveral(t *testing.T) {
	server := redisserver.StartTB(t, 1)[0]
	admin, user := dialAs(t, server), dialAs(t, server)
	if _, err := admin.Do("ACL", "SETUSER", "shop", "reset", "on", "nopass", "+@all", "&*", "~*", "-set"); err != nil {
		t.Fatal(err)
	}
	if _, err := user.Do("AUTH", "shop", "x"); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		word     string
		proposal any
		ours     bool // it has both keys, by another token
	}{{"acquire", "", false}, {"behind", "", false}, {"acquire", "", true}, {"acquire", 5, true}, {"follow", "", true}} {
		admin.Send("FLUSHALL")
		if row.ours {
			admin.Send("SET", "a", "U")
			admin.Send("SET", "b", "U")
		}
		if _, err := admin.Do(""); err != nil {
			t.Fatal(err)
		}
		if got, err := callSet(user, []string{"a", "b"}, "me", row.word, row.proposal, "T", "U", "U"); err == nil {
			t.Errorf("%v: answered %v, want an error", row, got)
		}
		if values, _ := redis.Strings(admin.Do("MGET", "a", "b")); slices.Contains(values, "T") {
			t.Errorf("%v: the keys hold %q", row, values)
		}
	}
}

// either stands for the number of a key, where several keys live equally long.
const either = int64(-1)

// near replaces a time to live of nearly 9000 ms by 9000 ms, and the number of the key by either if that is wanted.
func near(answer, want any) any {
	if list, ok := answer.([]any); ok && len(list) == 4 {
		if n, ok := list[0].(int64); ok && n < -8002 && n > -9002 {
			list[0] = int64(-9002)
		}
		if w, ok := want.([]any); ok && w[2] == either && list[2] != int64(0) {
			list[2] = either
		}
	}
	return answer
}

func TestTheScriptForSeveralNamesGivesOneFenceAboveAll(t *testing.T) {
	needsLongIntegers(t)
	onEachServer(t, func(t *testing.T, conn redis.Conn) {
		now := time.Now().UnixMicro() / FenceTick.Microseconds()
		conn.Do("SET", "redlock:fence:a", now-10)
		conn.Do("SET", "redlock:fence:b", now+400)
		for _, step := range []struct {
			name, token string
			proposal    int64
			want        any
			fence       int64
		}{
			{"the proposal is not above one of the fences", "T", now, []any{int64(1), now + 401, int64(0), int64(0)}, now + 401},
			{"a refusal tells the highest", "U", now, []any{int64(-9002), now + 401, either, int64(0)}, now + 401},
			{"the same again", "T", now + 500, []any{int64(1), now + 500, int64(0), int64(0)}, now + 500},
		} {
			got, err := callSet(conn, []string{"a", "b", "c"}, "me", "acquire", step.proposal, step.token)
			if err != nil || !reflect.DeepEqual(near(got, step.want), step.want) {
				t.Errorf("%s: the script answers %v, %v, want %v", step.name, got, err, step.want)
			}
			for _, key := range []string{"a", "b", "c"} {
				if fence, err := redis.Int64(conn.Do("GET", "redlock:fence:"+key)); fence != step.fence {
					t.Errorf("%s: the fence of %s is %d, %v, want %d", step.name, key, fence, err, step.fence)
				}
			}
		}
		conn.Do("SET", "redlock:fence:b", "nonsense")
		conn.Do("DEL", "a", "b", "c")
		if got, err := callSet(conn, []string{"a", "b", "c"}, "me", "acquire", now, "T"); err == nil {
			t.Errorf("the script answers %v where a fence is no number, want an error", got)
		}
		if n, err := redis.Int(conn.Do("EXISTS", "a", "b", "c")); n != 0 {
			t.Errorf("%d keys stand after an error, %v, want none", n, err)
		}
	})
}

// A key that the user may not write must leave the others as they were.
func TestTheScriptForSeveralNamesLeavesNoKeyAfterAnError(t *testing.T) {
	server := redisserver.StartTB(t, 1)[0]
	admin, user := dialAs(t, server), dialAs(t, server)
	for _, rules := range [][]any{{"~a", "%R~b"}, {"~a", "~b", "%R~redlock:fence:b", "~redlock:fence:a"}} {
		if _, err := admin.Do("ACL", append([]any{"SETUSER", "shop", "reset", "on", "nopass", "+@all"}, rules...)...); err != nil {
			t.Fatal(err)
		}
		if _, err := user.Do("AUTH", "shop", "x"); err != nil {
			t.Fatal(err)
		}
		conn := user
		if got, err := callSet(conn, []string{"a", "b"}, "me", "acquire", 5, "T"); err == nil {
			t.Errorf("the script answers %v, want an error", got)
		}
		if n, err := redis.Int(admin.Do("EXISTS", "a", "b")); n != 0 {
			t.Errorf("%d keys stand after an error, %v, want none", n, err)
		}
	}
}

func TestTheScriptsIncludeTheFunctionsThatTheyShare(t *testing.T) {
	for name, script := range map[string]string{"batch.lua": batchLua.text(), "set.lua": setLua.text()} {
		for _, function := range []string{"fence", "recall"} {
			if n := strings.Count(script, "local function "+function+"("); n != 1 || strings.Contains(script, "-- include ") {
				t.Errorf("%s has %d functions %s, want one, in the place of the line that includes its file", name, n, function)
			}
		}
	}
	for _, script := range AllScripts() {
		if i := strings.Index(script, "const."); i >= 0 {
			t.Errorf("%s.lua names a constant that Go does not have: %.40q", Name(script), script[i:])
		}
	}
}

func TestSetsHaveKeysOfTheirOwn(t *testing.T) {
	seen := make(map[string][]string)
	for _, keys := range [][]string{{"a", "b"}, {"a", "b", "c"}, {"ab", "c"}, {"a", "bc"}, {"a1:b", "c"}, {"a", "1:b1:c"}, {"a,b", "c"}} {
		terms := NewSetTerms(keys, time.Second)
		if other, ok := seen[terms.Key()]; ok {
			t.Errorf("the sets %q and %q have one key", keys, other)
		}
		seen[terms.Key()] = keys
	}
}

func TestAnIllFormedReplyForSeveralNamesEndsTheConnection(t *testing.T) {
	for _, row := range []struct {
		kind  Kind
		reply any
	}{
		{Set, int64(0)},
		{Set, int64(-1)},
		{Set, []any{int64(1), int64(0), int64(0), int64(0)}},
		{Set, []any{int64(1), int64(0)}},
		{Set, []any{int64(-1), int64(0), int64(1)}},
		{Set, []any{int64(-1), int64(0), int64(1), int64(2)}},
		{Set, []any{int64(-1), int64(0), int64(1), int64(-1)}},
		{Set, []any{int64(1), int64(0), int64(1), int64(0)}},
		{Set, []any{int64(-1), int64(0), int64(0), int64(0)}},
		{Set, []any{int64(-1), int64(0), int64(3), int64(0)}},
		{Set, []any{int64(-1), int64(0), int64(-1), int64(0)}},
		{Set, []any{int64(-1), int64(-1), int64(1), int64(0)}},
		{Set, []any{int64(1), int64(5), int64(0), int64(0)}}, // no fence was asked for
		{Set, []any{int64(0), int64(0), int64(1), int64(0)}},
		{Set, []any{"x", int64(0), int64(1), int64(0)}},
		{Renew, int64(0)},
		{Release, int64(2)},
		{Commit, int64(1)},
		{Renew, []any{int64(1)}},
		{Renew, []any{int64(1), int64(1), int64(1)}},
		{Renew, []any{int64(1), "x"}},
		{Release, []any{int64(1), int64(-5)}},
	} {
		it := Command{Kind: row.kind, Claim: claimOf("a", "b")}
		if a, ok := Decode(&it, row.reply); ok {
			t.Errorf("%v with the reply %v is %v, want that it is ill-formed", row.kind, row.reply, a)
		}
	}
}

// A missing key may be set again, so the answer for all keys must say that another token stands under one.
func TestAKeyWithAnotherTokenDecidesOverAMissingOne(t *testing.T) {
	terms := NewSetTerms([]string{"a", "b"}, time.Second)
	claim := NewClaim(&terms, ClaimOf{Token: "T"})
	for _, reply := range [][]any{{int64(0), int64(-1)}, {int64(-1), int64(0)}} {
		if a, ok := Decode(&Command{Kind: Renew, Claim: &claim}, reply); !ok || a.Outcome != OtherToken {
			t.Errorf("the reply %v to a renewal means %v, %t, want %v", reply, a.Outcome, ok, OtherToken)
		}
	}
}
