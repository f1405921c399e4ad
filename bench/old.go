package main

// compareWith leaves ours, and ours as the other program has it, and the workloads in which each subject
// is a process.
func (b *bench) compareWith(program string) {
	ours := subjectByID(oursID)
	old := *ours
	old.id, old.short, old.program = oldID, "the other commit", program
	b.subjects = []*subject{ours, &old}
	var all []*workload
	for _, w := range workloads() {
		if !w.takes(ours) || w.against != "" || w.id == idLeases || w.id == idKilled2 {
			continue
		}
		w.takes, w.against = func(*subject) bool { return true }, oldID
		all = append(all, w)
	}
	b.workloads = all
}

// fleetOf returns the masters of a subject. Clients of different commits may not know each other's records
// of the restart guard, so they share none.
func (b *bench) fleetOf(s *subject) *fleet {
	if s.program != "" {
		return b.oldFleet
	}
	return b.fleet
}
