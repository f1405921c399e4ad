// Package supervise is a supervisor: a second process of a program, which has the end of a pipe. When the pipe ends, the first process has
// ended. If that was by SIGKILL, it could not end its processes itself, so the supervisor kills them.
//
// A process is a supervisor if Name is its only argument. Its life is the initialisation of this package, so that it begins before most of the
// program is initialised. For Go initialises packages in the order of their import paths, but each behind what it imports. So this one should
// import neither bytes nor strings, nor what does.
package supervise

import (
	"io"
	"os"
	"strconv"
)

// Name is the only argument of a supervisor.
const Name = "supervise"

// Left is what the first process has left for main to do, if this process is a supervisor, and the first one has named that by Leave and
// was killed. Otherwise it is empty.
var Left string

// An order is a line that begins with one of these letters.
const (
	add   = 'a'
	drop  = 'd'
	leave = 'l'
	end   = 'e'
)

// Add returns the order to kill a process or, with a minus, a process group, as of kill(2).
func Add(id int) string { return string(add) + strconv.Itoa(id) + "\n" }

// Drop returns the order that takes Add back.
func Drop(id int) string { return string(drop) + strconv.Itoa(id) + "\n" }

// Leave returns the order that sets Left, to a text of one line.
func Leave(text string) string { return string(leave) + text + "\n" }

// End is the last order of a process that ends by itself: nothing is killed, and nothing is left.
const End = string(end) + "\n"

func init() {
	if Supported && len(os.Args) == 2 && os.Args[1] == Name {
		ignoreSignals()
		orders, _ := io.ReadAll(os.Stdin) // an error is an end, too
		if Left = obey(string(orders), kill); Left == "" {
			os.Exit(0)
		}
	}
}

// obey kills what was added, and returns what is left to do.
func obey(orders string, kill func(id int)) (left string) {
	ids := make(map[int]bool)
	for begin, i := 0, 0; i < len(orders); i++ {
		if orders[i] != '\n' {
			continue
		}
		line := orders[begin:i]
		begin = i + 1
		if line == "" {
			continue
		}
		id, _ := strconv.Atoi(line[1:])
		switch line[0] {
		case add:
			ids[id] = true
		case drop:
			delete(ids, id)
		case leave:
			left = line[1:]
		case end:
			return ""
		}
	}
	for id := range ids {
		kill(id)
	}
	return left
}
