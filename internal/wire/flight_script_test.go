package wire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

func TestAValueIsSentToTheClaimsThatWait(t *testing.T) {
	of := func(members ...string) []string { return members }
	const w, x = "w W@shop 60000", "x X 400f"
	long := strings.Repeat("R", 40) + "@web"
	for _, row := range []struct {
		name, key, token, value string
		queue                   []string
		told                    []string // clients
		holder                  string
		unsure                  bool
	}{
		{"claims", "R", "R", "v", of(w, x), of("w", "x"), "R", false},
		{"nobody waits", "R", "R", "v", nil, nil, "", false},
		{"claims without a subscription, and what is no claim", "R", "R", "v", of("w W@shop 60000p", x, "w", "w W@shop"), of("x"), "R", false},
		{"a long token", long, long, "v", of(w), of("w"), long[:32], false},
		{"an empty value", "R", "R", "", of(w), of("w"), "R", false},
		{"a value of all kinds of bytes", "R", "R", "\x00\r\n! 5 \xff", of(w), of("w"), "R", false},
		{"a holder that is not sure", "R", "R", "v", of(w, x), of("w", "x"), "R", true},
		{"the key holds another token", "S", "R", "v", of(w), nil, "", false},
		{"there is no key", "", "R", "v", of(w), nil, "", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, dial func() redis.Conn) {
				s := newQueueScene(t, dial, "w", "x")
				s.reset(row.queue...)
				if row.key != "" {
					s.must("SET", "k", row.key, "PX", 60_000)
				}
				s.must("SCRIPT", "LOAD", flightLua.text())
				terms := NewTerms("k", 0)
				claim := NewClaim(&terms, ClaimOf{Token: row.token})
				command := Command{Kind: Publish, Request: claim.Publishing([]byte(row.value), !row.unsure), Claim: &claim}
				name, args := command.Append(nil, "r")
				reply, err := s.conn.Do(name, args...)
				if a, ok := Decode(&command, reply); err != nil || !ok || !a.Done() || reply != int64(len(row.told)) {
					t.Errorf("answered %v, %v, want %d", reply, err, len(row.told))
				}
				tokens := map[string]string{"w": "W@shop", "x": "X"}
				for _, client := range row.told {
					text := fmt.Sprintf("%s %s %s 1 k%s", map[bool]string{false: "!", true: ";"}[row.unsure], tokens[client], row.holder, row.value)
					s.told(client, text)
					want := Value{Key: "k", Token: tokens[client], Holder: row.holder, Value: []byte(row.value), Sure: !row.unsure}
					if got, ok := ParseValue(text); !ok || !reflect.DeepEqual(got, want) {
						t.Errorf("ParseValue(%q) = %+v, %v", text, got, ok)
					}
				}
				s.nobodyTold()
				s.queue(row.queue...)
			})
		})
	}
}

// What one call sends is bounded: others wait for the server meanwhile.
func TestAValueIsSentToSoManyAtMost(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newQueueScene(t, dial)
		s.must("FLUSHALL")
		s.must("SET", "k", "R", "PX", 60_000)
		for i := range 1100 {
			s.conn.Send("ZADD", "redlock:queue:k", i, fmt.Sprintf("c%d C%d 400", i, i))
		}
		s.must("PING")
		for value, want := range map[string]int64{"v": 1024, strings.Repeat("v", ValueMost): 255} { // 1 MiB, and a little for each message
			got, err := redis.Int64(s.conn.Do("EVAL", flightLua.text(), 2, "k", "redlock:queue:k", "R", value))
			if err != nil || got != want {
				t.Errorf("%d clients were sent %d bytes, %v, want %d", got, len(value), err, want)
			}
		}
	})
}

func TestAMessageThatIsNoValueIsNotTakenForOne(t *testing.T) {
	for _, text := range []string{
		"", "!", "! ", ";", "; ", "!    ", "T k", "+ T run 5 0 k", "! T R 1", "! T R 1 ", "! T R 2 k", "! T R 0 k", "! T R -1 k", "! T R +1 k", "! T R x k", "!  R 1 k", "! T  1 k",
		"! T R 99999999999999999999 k", "! " + strings.Repeat("T", tokenMost+1) + " R 1 k", "! T " + strings.Repeat("R", HolderMost+1) + " 1 k",
		"! T R 1 k" + strings.Repeat("v", ValueMost+1),
	} {
		if got, ok := ParseValue(text); ok {
			t.Errorf("ParseValue(%q) = %+v, want it to be none", text, got)
		}
	}
}
