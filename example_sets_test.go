package redlock_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// setOf returns the index of the set that serves name: the one with the highest hash of set and name.
func setOf(name string, sets []string) int {
	best, highest := 0, uint64(0)
	for i, set := range sets {
		sum := sha256.Sum256([]byte(set + "\x00" + name))
		if h := binary.BigEndian.Uint64(sum[:]); i == 0 || h > highest {
			best, highest = i, h
		}
	}
	return best
}

// Names are spread over several sets of masters, each with a Client of its own. When a set is added, a name
// stays where it is, or moves to the new set.
func Example_severalSets() {
	for _, name := range []string{"stock", "orders", "mail", "invoices", "reports", "users"} {
		fmt.Println(name, setOf(name, []string{"east", "west"}), setOf(name, []string{"east", "west", "north"}))
	}
	// Output:
	// stock 0 0
	// orders 1 1
	// mail 1 1
	// invoices 0 0
	// reports 0 2
	// users 1 1
}
