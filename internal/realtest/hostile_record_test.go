package realtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/redisserver"
	"github.com/redlock-go/redlock/redlocktest"
)

// notRecords are what somebody who may write the record's key can put there.
var notRecords = []string{
	"", " ", "x", "- 5", "- 5 \x01", "\x1b[2J 5 0", "- 5 \u202e", "- 5 0\n", "- 5 x", "g 5 0", "- -5 0", "- 5.5 0", "- 0x5 0", "- +5 0",
	"- 99999999999999999999 0", "- 9223372036854775808 0", "- 9223372036854775807 0", "- 18446744073709551615 0", "- 5 0 adopted ",
	"- 5 0 ADOPTED", "-  5 0", "- nan 0", "- " + strings.Repeat("0", 300) + "5 0", "- 5 " + strings.Repeat("0", 300), strings.Repeat("a", 1<<21) + " 5 0",
	"- 5 0 99999999999", "- 5 0 -1", "- 5 0 604800001", "- 5 0 nan adopted", strings.Repeat("x", 1<<21),
}

// What is no record is replaced, which begins a quarantine; it does not keep the master from voting
// for ever.
//
// It is not parallel: bubbles limit the process to one thread, which tests on real servers would feel.
func TestAnInvalidRecordIsReplaced(t *testing.T) {
	for _, text := range notRecords {
		t.Run("", func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				ms := redlocktest.StartN(t, 1)
				ms.Master(0).Set("redlock:incarnation", text, 0)
				c := ms.Open(nil)
				time.Sleep(5 * time.Second)
				if m := c.Masters()[0]; m.State != redlock.MasterQuarantined {
					t.Errorf("with the record %.60q of %d bytes the master is %v: %v, want it quarantined", text, len(text), m.State, m.Err)
				}
				time.Sleep(15 * time.Second)
				if !c.Locker("a").TryLock() {
					t.Errorf("with the record %.60q of %d bytes the master does not vote after a quarantine: %v", text, len(text), c.Masters()[0].Err)
				}
			})
		})
	}
}

func TestAnInvalidRecordOnARealServerIsReplaced(t *testing.T) {
	t.Parallel()
	s := redisserver.StartTB(t, 1)[0]
	c, err := redlock.Open([]string{s.Addr()}, &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second}, MaxTTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "the lock is had", c.Locker("a").TryLock)
	for _, text := range notRecords {
		if _, err := s.Do("SET", "redlock:incarnation", text); err != nil {
			t.Fatal(err)
		}
	}
	last := time.Now()
	eventually(t, "another record was written", func() bool {
		m := c.Masters()[0]
		return m.State == redlock.MasterQuarantined && m.Since.After(last)
	})
	eventually(t, "the lock is had again", c.Locker("b").TryLock)
}
