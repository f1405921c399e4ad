// Package executed shows tests of this module what an embedded master executes: see package redlocktest.
package executed

import "time"

// Attach makes an observer see what a *redlocktest.Master executes from now on. Package redlocktest sets Attach. Only tests
// of other packages of this module call it, before any client is connected.
var Attach func(master any, o Observer)

// An Observer sees the calls of scripts, SETs and DELs of clients, one at a time, in the order of their execution. It must not call
// the methods of the Master that change keys.
type Observer interface {
	// Before is called before a call is executed, of which Reply and Published are empty.
	Before(c *Call)
	// After is called when it has been executed.
	After(c *Call)
	// Changed is called when keys were changed by other means: a Master has forgotten them, or a test has set or deleted one.
	Changed()
}

// A Call is a command that a master executes for a client.
type Call struct {
	Link      string                                 // the number of the connection, which no other connection to the master has
	Now       time.Time                              // when it is executed
	Name      string                                 // of the command
	Args      []string                               // behind the name; of a call of a script, the number of keys and what follows
	Script    string                                 // the text of the script that is called
	Reply     string                                 // as it is sent
	Published []Message                              // in the order of sending
	Read      func(command ...string) (reply string) // executes a command that reads, and returns its reply as it would be sent
	Left      func(key string) time.Duration         // returns how long a key lives; 0: it does not expire, or there is none
}

// A Message is what a script has published.
type Message struct {
	Channel string // with the client's id at its end
	Text    string // as its subscriber reads it
}
