package master

import (
	"testing"

	"github.com/redlock-go/redlock/internal/wire"
)

func TestAMasterMayHoldATokenUnlessEverySetWasRefused(t *testing.T) {
	granted, taken := wire.Answer{Outcome: wire.Granted}, wire.Answer{Outcome: wire.Taken}
	admit := (*tokenState).admit
	write := (*tokenState).write
	lose := (*tokenState).lose
	grant := func(s *tokenState) { s.answer(granted, false) }
	refuse := func(s *tokenState) { s.answer(taken, false) }
	fail := func(s *tokenState) { s.answer(wire.Answer{Err: errFull}, false) }
	queue := func(s *tokenState) { s.answer(taken, true) }
	for _, row := range []struct {
		name  string
		steps []func(*tokenState)
		want  tokenState
		holds bool
	}{
		{"nothing was let in", nil, absent, false},
		{"let in", []func(*tokenState){admit}, queued, false},
		{"written", []func(*tokenState){admit, write}, written, true},
		{"granted", []func(*tokenState){admit, write, grant}, possible, true},
		{"refused", []func(*tokenState){admit, write, refuse}, refused, false},
		{"answered by an error", []func(*tokenState){admit, write, fail}, refused, false},
		{"refused, and in the queue", []func(*tokenState){admit, write, queue}, possible, true},
		{"its answer was lost", []func(*tokenState){admit, write, lose}, possible, true},
		{"lost, then a heal is refused", []func(*tokenState){admit, write, lose, admit, write, refuse}, possible, true},
		{"granted, then a heal fails", []func(*tokenState){admit, write, grant, admit, write, fail}, possible, true},
		{"refused, then a heal is let in", []func(*tokenState){admit, write, refuse, admit}, refused, false},
		{"refused, then a heal is written", []func(*tokenState){admit, write, refuse, admit, write}, written, true},
		{"two written, the first refused, the second granted", []func(*tokenState){admit, write, write, refuse, grant}, possible, true},
		{"two written, the first refused, the second lost", []func(*tokenState){admit, write, write, refuse, lose}, possible, true},
	} {
		var s tokenState
		for _, step := range row.steps {
			step(&s)
		}
		if s != row.want || s.mayHold() != row.holds {
			t.Errorf("%s: standing %d, mayHold() = %t, want %d, %t", row.name, s, s.mayHold(), row.want, row.holds)
		}
	}
}

func TestNoCommandThatSetsTheKeyIsTakenAfterItsRelease(t *testing.T) {
	run(t, ok, func(t *testing.T, m *Master, server *fake) {
		for _, kind := range []wire.Kind{wire.Set, wire.Again, wire.Register, wire.Heal} {
			for _, release := range []wire.Kind{wire.Release, wire.Undo} {
				c := claimOf("a")
				if err := m.Ask(wire.Set, c, nil); err != nil {
					t.Fatal(err)
				}
				m.Ask(release, c, nil)
				if err := m.Ask(kind, c, nil); err != errReleased {
					t.Errorf("Ask(%v) after Ask(%v) = %v, want %v", kind, release, err, errReleased)
				}
			}
		}
	})
}
