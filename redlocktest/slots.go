package redlocktest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The keys of the record of a semaphore begin with these texts. Its name, with the Options.Prefix, follows.
const (
	slotsKey = "redlock:slots:" // a hash: see internal/wire/slots.lua
	untilKey = "redlock:until:" // a sorted set: when each slot expires
	takenKey = "redlock:taken:" // a bitmap of the slots that are taken
)

// GetSlots returns the tokens that stand in the slots of a semaphore and have not expired, by slot. The token is that of Permit.Token. Its
// key is the semaphore's name, with the Options.Prefix. GetSlots uses no connection, so it works while any fault is on.
func (m *Master) GetSlots(key string) map[int]string {
	tokens := make(map[int]string)
	ends, _ := m.mini.SortedSet(untilKey + key)
	for number, until := range ends {
		if slot, err := strconv.Atoi(number); err == nil && until > float64(time.Now().UnixMilli()) {
			tokens[slot] = m.mini.HGet(slotsKey+key, number)
		}
	}
	return tokens
}

// SetSlot puts a token into a slot of a semaphore, as a client would that nobody hears of any more. It replaces the token that stands
// there, whose holder then loses its permit if that happens at a majority of the masters. The slot becomes free when ttl has passed, which
// must be above 0. A client that waits notices that within a second.
func (m *Master) SetSlot(key string, slot int, token string, ttl time.Duration) {
	if slot < 0 || slot >= 1<<16 || token == "" || strings.ContainsAny(token, " \n") || ttl <= 0 {
		panic(fmt.Sprintf("redlocktest: SetSlot(%q, %d, %q, %v) is not possible", key, slot, token, ttl))
	}
	number := strconv.Itoa(slot)
	m.noteSlots(key, m.mini.HGet(slotsKey+key, number), func(slots []string) []string {
		return slices.DeleteFunc(slots, func(s string) bool { return s == number })
	})
	m.mini.HSet(slotsKey+key, number, token)
	m.noteSlots(key, token, func(slots []string) []string { return append(slots, number) })
	if _, err := m.mini.ZAdd(untilKey+key, float64(time.Now().Add(ttl).UnixMilli()), number); err != nil {
		panic("redlocktest: bug: " + err.Error())
	}
	taken, _ := m.mini.Get(takenKey + key)
	bits := []byte(taken)
	for len(bits) <= slot/8 {
		bits = append(bits, 0)
	}
	bits[slot/8] |= 0x80 >> (slot % 8)
	if err := m.mini.Set(takenKey+key, string(bits)); err != nil {
		panic("redlocktest: bug: " + err.Error())
	}
	for _, beginning := range []string{slotsKey, untilKey, takenKey} {
		m.mini.SetTTL(beginning+key, max(m.mini.TTL(beginning+key), ttl+10*time.Minute))
	}
}

// noteSlots changes the list of the slots in which a token stands. What else the record has about a token is kept.
func (m *Master) noteSlots(key, token string, change func([]string) []string) {
	field := "@" + token
	note := m.mini.HGet(slotsKey+key, field)
	if note == "" {
		note = " 400 0 - " // no client, how long a grant would last, an unknown limit, and no slots
	}
	at := strings.LastIndexByte(note, ' ') + 1
	slots := change(strings.FieldsFunc(note[at:], func(r rune) bool { return r == ',' }))
	if len(slots) == 0 {
		m.mini.HDel(slotsKey+key, field)
		return
	}
	m.mini.HSet(slotsKey+key, field, note[:at]+strings.Join(slots, ","))
}

// DelSlots takes all tokens out of the slots of a semaphore, and reports whether there were any. A permit is lost when a majority of the
// masters no longer has it, at its next renewal. Those who wait stay in the queue.
func (m *Master) DelSlots(key string) bool {
	existed := len(m.GetSlots(key)) > 0
	for _, beginning := range []string{slotsKey, untilKey, takenKey} {
		m.mini.Del(beginning + key)
	}
	return existed
}
