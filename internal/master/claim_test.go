package master

import "testing"

func TestAMasterMayHoldATokenUnlessEverySetWasRefused(t *testing.T) {
	granted, taken := Answer{Outcome: Granted}, Answer{Outcome: Taken}
	admit := (*standing).admit
	write := (*standing).write
	lose := (*standing).lose
	grant := func(s *standing) { s.answer(granted, false) }
	refuse := func(s *standing) { s.answer(taken, false) }
	fail := func(s *standing) { s.answer(Answer{Err: errFull}, false) }
	queue := func(s *standing) { s.answer(taken, true) }
	for _, row := range []struct {
		name  string
		steps []func(*standing)
		want  standing
		holds bool
	}{
		{"nothing was let in", nil, absent, false},
		{"let in", []func(*standing){admit}, queued, false},
		{"written", []func(*standing){admit, write}, written, true},
		{"granted", []func(*standing){admit, write, grant}, possible, true},
		{"refused", []func(*standing){admit, write, refuse}, refused, false},
		{"answered by an error", []func(*standing){admit, write, fail}, refused, false},
		{"refused, and in the queue", []func(*standing){admit, write, queue}, possible, true},
		{"its answer was lost", []func(*standing){admit, write, lose}, possible, true},
		{"lost, then a heal is refused", []func(*standing){admit, write, lose, admit, write, refuse}, possible, true},
		{"granted, then a heal fails", []func(*standing){admit, write, grant, admit, write, fail}, possible, true},
		{"refused, then a heal is let in", []func(*standing){admit, write, refuse, admit}, refused, false},
		{"refused, then a heal is written", []func(*standing){admit, write, refuse, admit, write}, written, true},
		{"two written, the first refused, the second granted", []func(*standing){admit, write, write, refuse, grant}, possible, true},
		{"two written, the first refused, the second lost", []func(*standing){admit, write, write, refuse, lose}, possible, true},
	} {
		var s standing
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
		for _, kind := range []Kind{Set, Again, Register, Heal} {
			for _, release := range []Kind{Release, Undo, Quit} {
				c := claimOf("a")
				if err := m.Ask(Set, c, nil); err != nil {
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
