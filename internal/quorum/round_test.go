package quorum

import (
	"testing"

	"github.com/redlock-go/redlock/internal/wire"
)

// A recorder notes whether the vote was counted when it is told of the answer.
type recorder struct {
	round  *Round
	counts []bool
}

func (l *recorder) note()                  { l.counts = append(l.counts, l.round.Votes()[0].In) }
func (l *recorder) Heard(int, wire.Answer) { l.note() }
func (l *recorder) Counted()               { l.note() }

// Otherwise a claim whose last vote is just coming could find its round over, and the vote missing: it was given up although
// it had won.
func TestAListenerHearsAnAnswerBeforeItIsCounted(t *testing.T) {
	r := &Round{group: NewGroup(nil), ballot: NewBallot(1), missing: 1}
	l := &recorder{round: r}
	r.each = l
	r.Answered(0, wire.Answer{Outcome: wire.Granted})
	if len(l.counts) != 2 || l.counts[0] || !l.counts[1] {
		t.Errorf("Heard and Counted found the vote counted: %v, want [false true]", l.counts)
	}
}
