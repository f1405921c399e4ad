package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// A command that a client's user may not use fails inside of the script. The script must neither take that for success, nor
// give up what it can do all the same.
func TestWhatAUserMayNotDoIsNoVote(t *testing.T) {
	server := redisserver.StartTB(t, 1)[0]
	admin, user := dialAs(t, server), dialAs(t, server)
	must := func(command string, args ...any) any {
		t.Helper()
		reply, err := admin.Do(command, args...)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	must("SCRIPT", "LOAD", batchLua.text())
	for _, row := range []struct {
		name  string
		rules []any
		setUp []any // a command
		words []string
		want  string // the beginning of the answer
		after []any  // a command
		is    any    // its answer
	}{
		{"SET of the key", []any{"~*", "-set"}, nil, []string{"acquire 9000 - -", "register 9000 0 400", "again 9000 0 400", "heal 9000 5"}, "error: ", []any{"EXISTS", "k"}, int64(0)},
		{"GET of the key", []any{"~*", "-get"}, []any{"SET", "k", "T", "PX", 5000}, []string{"renew 9000", "release", "release 0 - 0", "again 9000 0 400"}, "error: ", []any{"EXISTS", "k"}, int64(1)},
		{"SET of the key, which has a higher fence", []any{"~*", "-set"}, []any{"SET", "redlock:fence:k", 10}, []string{"heal 9000 5", "acquire 9000 - - 5"}, "error: ", []any{"EXISTS", "k"}, int64(0)},
		{"the notes of those who wait", []any{"~k", "~redlock:queue:k", "~redlock:rqueue:k", "~redlock:incarnation"},
			[]any{"EVAL", "redis.call('ZADD', 'redlock:queue:k', 1, 'w W 400') return redis.call('SET', 'k', 'T', 'PX', 5000)", 0},
			[]string{"release", "release 400 - 0"}, "1", []any{"EXISTS", "k"}, int64(0)},
		{"PEXPIRE of the key, while somebody waits", []any{"~*", "-pexpire"}, []any{"EVAL", "redis.call('ZADD', 'redlock:queue:k', 1, 'w W 400') return redis.call('SET', 'k', 'T', 'PX', 5000)", 0},
			[]string{"renew 60000", "renew 60000 -"}, "error: ", []any{"EVAL", "return redis.call('PTTL', 'k') <= 5000 and 1 or 0", 0}, int64(1)},
		{"DEL of the key", []any{"~*", "-del"}, []any{"EVAL", "redis.call('ZADD', 'redlock:queue:k', 1, 'w W 400') return redis.call('SET', 'k', 'T', 'PX', 5000)", 0},
			[]string{"release", "undo"}, "error: ", []any{"EVAL", "return redis.call('EXISTS', 'k', 'redlock:queue:k')", 0}, int64(2)},
		{"to count subscribers, while a reader waits, who is granted the lock", []any{"~*", "-pubsub"}, []any{"EVAL", "redis.call('ZADD', 'redlock:rqueue:k', 50, 'r R 400') return redis.call('SET', 'k', 'T', 'PX', 5000)", 0},
			[]string{"release", "release 400 - 0"}, "2", []any{"EXISTS", "k"}, int64(1)},
		{"the fence, which an acquisition needs", []any{"~k", "~redlock:queue:k"}, nil, []string{"acquire 9000 - - 5", "register 9000 0 400 5", "heal 9000 5"}, "error: ", []any{"EXISTS", "k"}, int64(0)},
		{"the fence, which a commit needs", []any{"~k"}, []any{"SET", "k", "T", "PX", 5000}, []string{"commit 5 60000"}, "error: ", []any{"EVAL", "return redis.call('PTTL', 'k') <= 5000 and 1 or 0", 0}, int64(1)},
	} {
		for _, word := range row.words {
			t.Run(row.name+", "+word, func(t *testing.T) {
				must("FLUSHALL")
				must("ACL", append([]any{"SETUSER", "shop", "reset", "on", "nopass", "+@all", "&*"}, row.rules...)...)
				if _, err := user.Do("AUTH", "shop", "x"); err != nil {
					t.Fatal(err)
				}
				if row.setUp != nil {
					must(row.setUp[0].(string), row.setUp[1:]...)
				}
				reply, err := user.Do("EVALSHA", batchLua.sha(), 1, "k", "c", word, "T")
				text := fmt.Sprint(reply)
				if err != nil {
					text = "error: " + err.Error()
				}
				if !strings.HasPrefix(text, row.want) {
					t.Errorf("answered %s, want %s", text, row.want)
				}
				if got := must(row.after[0].(string), row.after[1:]...); got != row.is {
					t.Errorf("%v: %v, want %v", row.after, got, row.is)
				}
			})
		}
	}
}
