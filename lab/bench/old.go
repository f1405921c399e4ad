package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// compareWith leaves ours, and ours as the program in the directory has it, and the workloads in which each subject
// is a process. Where a Locker takes no part, RWLockers do.
func (b *bench) compareWith(dir string) {
	b.subjects, b.workloads = nil, nil
	all := workloads()
	for _, id := range []string{oursID, readersID} {
		ours := subjectByID(id)
		old := *ours
		old.id, old.short, old.program = id+ofOther, "the other commit", filepath.Join(dir, "bench")
		b.subjects = append(b.subjects, ours, &old)
		for _, w := range all {
			if !w.takes(ours) || w.against != "" || w.id == idLeases || w.id == idKilled2 {
				continue
			}
			w.takes, w.against = func(s *subject) bool { return s.id == ours.id || s.id == old.id }, old.id
			b.workloads = append(b.workloads, w)
		}
	}
}

// fleetOf returns the masters of a subject. Clients of different commits may not know each other's records
// of the restart guard, so they share none.
func (b *bench) fleetOf(s *subject) *fleet {
	if s.program != "" {
		return b.oldFleet
	}
	return b.fleet
}

// adoptMasters has the command beside the subject's program adopt the masters: another commit's clients may not
// know the record that this commit writes, and this program cannot rely on another commit's internal packages.
func (s *subject) adoptMasters(f *fleet) error {
	command := filepath.Join(filepath.Dir(s.program), "redlock")
	out, err := exec.Command(command, "doctor", "--adopt", "--masters", strings.Join(f.Addrs(), ",")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
