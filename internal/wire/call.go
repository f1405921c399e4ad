package wire

import "fmt"

// How commands are written. Those that are scripted are calls of a script: EVALSHA. Several of them can share a call.

// Arguments, boxed once for redigo.
var (
	argNX any = "NX"
	argPX any = "PX"
)

// lua returns the script of a scripted command.
func (cmd *Command) lua() *lua {
	switch {
	case cmd.OfSet() && cmd.Kind.Acquires():
		return setLua
	case cmd.Claim != nil && cmd.Claim.slots != nil:
		return slotsLua
	}
	return batchLua
}

// Script returns the Request that loads the script of a scripted command. Commands for single names with the same script
// can share a call.
func (cmd *Command) Script() Request { return cmd.lua() }

// PublishScript is the Request that loads the script of a Publish. It goes ahead of each: a Publish is rare, and is not sent again.
var PublishScript Request = flightLua

// FollowScript is the Request that loads the script of AppendFollow.
var FollowScript Request = setLua

// AppendScript appends the first arguments of EVALSHA for a call that n scripted commands share, of which this is the
// first. Behind them are the keys, the id of the client, and the words. own are the texts that the server's process has of its own, or nil.
func (cmd *Command) AppendScript(args []any, n int, own *Own) []any {
	script := cmd.lua()
	if sha := own.sha(script); sha != nil {
		return append(args, sha, n)
	}
	return append(args, script.sha(), n)
}

// Owned reports whether a scripted command is a call of a script of which a server's process may have a text of its own.
func (cmd *Command) Owned() bool { return indexOfOwn(cmd.lua()) >= 0 }

// AppendKey appends the key of a scripted command.
func (cmd *Command) AppendKey(args []any) []any { return append(args, cmd.Claim.key) }

// AppendWord appends the word of a scripted command for a master, and the token.
func (cmd *Command) AppendWord(args []any, master int) []any {
	return append(args, cmd.word(master), cmd.Claim.token)
}

// Append appends the arguments of a command that can share no call, for a client with this id, and returns its name. It
// is not for Asks and Probe.
func (cmd *Command) Append(args []any, id any) (name string, all []any) {
	switch {
	case cmd.OfSet():
		return "EVALSHA", cmd.appendSet(args, id)
	case cmd.Kind.Sets():
		return "SET", append(args, cmd.Claim.key, cmd.Claim.token, argNX, argPX, cmd.Claim.ttl)
	}
	if cmd.Kind == Forget {
		return "DEL", append(args, fmt.Sprint("redlock:waiter:", id))
	}
	switch r := cmd.Request.(type) {
	case *lua:
		return "SCRIPT", append(args, "LOAD", r.text())
	case *publishing:
		args = append(args, flightLua.sha(), 2, cmd.Claim.key, r.queue, cmd.Claim.token, r.value)
		if r.unsure {
			args = append(args, "unsure")
		}
		return "EVALSHA", args
	}
	return "PING", args
}
