package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// isLock reports whether somebody has a key of the lock, or waits for it, or it cannot be read.
func (l lockOfNames) isLock() bool { return l.Token != "" || l.Waiting > 0 || l.problem != nil }

// isSemaphore reports whether somebody stands in a slot of the semaphore of this name, or waits for one.
func (l lockOfNames) isSemaphore() bool { return l.permits.Taken > 0 || l.permits.Waiting > 0 }

// permitRows returns the lines of a semaphore in the table: one for it, and one for each slot that is taken.
func (l lockOfNames) permitRows(masters int) []sheetRow {
	held := l.permits.Taken - len(l.permits.Slots)
	for _, slot := range l.permits.Slots {
		if slot.Held() {
			held++
		}
	}
	limits := l.permits.Limits()
	of, remarks := "?", []string(nil)
	if len(limits) > 0 {
		of = strconv.Itoa(slices.Max(limits))
	}
	if len(limits) > 1 {
		remarks = append(remarks, fmt.Sprintf("clients use the limits %s: the largest counts, so give every client the same", joined(limits, ", ")))
	}
	if more := l.permits.Taken - len(l.permits.Slots); more > 0 {
		remarks = append(remarks, fmt.Sprintf("%d more slots are not shown", more))
	}
	rows := []sheetRow{{cells: []string{shown(l.name), fmt.Sprintf("%d of %s permits", held, of), "-", "-", "-", waiting(l.permits.Queue)}, remarks: remarks}}
	for _, slot := range l.permits.Slots {
		one := lockOfNames{name: l.name, slots: []int{slot.Number}, Holding: slot.Holding}
		row := sheetRow{cells: one.cells(masters)}
		if len(limits) > 1 && slot.Limit > 0 {
			row.cells[1] += fmt.Sprintf(" (limit %d)", slot.Limit)
		}
		rows = append(rows, row)
	}
	return rows
}

// title returns the name, with the slots of a permit behind it: as redlock break names it, if there is one slot.
func (l lockOfNames) title() string {
	if l.slots == nil {
		return shown(l.name)
	}
	return shown(l.name) + "#" + joined(l.slots, ",")
}

func joined(numbers []int, by string) string {
	var all []string
	for _, n := range numbers {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, by)
}

// parseSlotName splits what redlock break is given to end the lease of a permit: NAME#SLOT, or NAME#* for all, which is -1. It reports
// false for anything else.
func parseSlotName(text string) (name string, slot int, ok bool) {
	at := strings.LastIndexByte(text, '#')
	if at <= 0 {
		return "", 0, false
	}
	if text[at+1:] == "*" {
		return text[:at], -1, true
	}
	n, err := strconv.ParseUint(text[at+1:], 10, 16)
	return text[:at], int(n), err == nil
}

// leasesOf returns the leases that stand in a slot of a semaphore, or in any if slot is -1. Each is named by all its slots.
func (l lockOfNames) leasesOf(slot int) (leases []lockOfNames) {
	for _, s := range l.permits.Slots {
		if slot >= 0 && s.Number != slot || slices.ContainsFunc(leases, func(other lockOfNames) bool { return other.Token == s.Token }) {
			continue
		}
		lease := lockOfNames{name: l.name, Holding: s.Holding}
		for _, other := range l.permits.Slots {
			if other.Token == s.Token {
				lease.slots = append(lease.slots, other.Number)
			}
		}
		leases = append(leases, lease)
	}
	return leases
}
