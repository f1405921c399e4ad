package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// compareWith leaves ours, and ours as the program in the directory has it, and the workloads in which each subject
// is a process.
func (b *bench) compareWith(dir string) {
	ours := subjectByID(oursID)
	old := *ours
	old.id, old.short, old.program = oldID, "the other commit", filepath.Join(dir, "bench")
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
