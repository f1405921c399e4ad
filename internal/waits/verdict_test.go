package waits

import (
	"fmt"
	"math/bits"
	"testing"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// For each way in which masters can have the keys of three clients: all who have keys ask all masters.
func TestOfClaimsWithSplitVotesOneStays(t *testing.T) {
	const clients = 3
	for masters := 3; masters <= 5; masters++ {
		need, worlds := quorum.Majority(masters), 1
		for range masters {
			worlds *= clients + 1
		}
		for world := range worlds {
			var keys [clients]uint64 // by client: the masters, as bits
			votes := make([]quorum.Vote, masters)
			for i, rest := 0, world; i < masters; i, rest = i+1, rest/(clients+1) {
				votes[i] = quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Taken}}
				if c := rest % (clients + 1); c < clients { // otherwise nobody has the key
					keys[c] |= 1 << i
					votes[i].Standing = token(c)
				}
			}
			stay, lease := 0, false
			for _, k := range keys {
				lease = lease || bits.OnesCount64(k) >= need
			}
			for c, mine := range keys {
				f := Finding{Answered: true, Keys: bits.OnesCount64(mine)}
				f.Rival, f.RivalKeys = Rival(votes, mine)
				if v := f.Verdict(token(c), need); v == Stays {
					stay++
				} else if want := map[bool]Verdict{true: LeavesFree, false: Yields}[lease]; f.Keys > 0 && v != want {
					t.Errorf("%d masters, keys %b: client %d has verdict %d, want %d", masters, keys, c, v, want)
				}
			}
			if some := world != worlds-1; some && stay != 1 {
				t.Errorf("%d masters, keys %b: %d claims stay, want one", masters, keys, stay)
			}
		}
	}
}

func token(client int) string { return fmt.Sprint("token ", client) }

func TestAClaimThatCannotWinBacksOff(t *testing.T) {
	for _, row := range []struct {
		name string
		Finding
		want  Verdict
		split bool
	}{
		{"too few answers", Finding{Keys: 1}, BacksOff, false},
		{"a grant that is over", Finding{Answered: true, Granted: 1}, BacksOff, false},
		{"the best for longer than g", Finding{Answered: true, Keys: 1, Overdue: true}, BacksOff, true},
		{"the best", Finding{Answered: true, Keys: 1, Granted: 1}, Stays, true},
		{"no keys", Finding{Answered: true, RivalKeys: 2}, Polls, false},
		{"answers that may be older than the votes", Finding{Answered: true, Keys: 1, RivalKeys: 2, Stale: true, Overdue: true}, Polls, false},
	} {
		if got, split := row.Verdict("own", 2), row.Split(); got != row.want || split != row.split {
			t.Errorf("%s: verdict %d, split %v, want %d, %v", row.name, got, split, row.want, row.split)
		}
	}
}
