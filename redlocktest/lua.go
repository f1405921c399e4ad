package redlocktest

// This file executes the scripts of redlock in place of miniredis, which makes a new Lua state for each call of a script: that took
// a third of the time of all tests. Such a script may use what an earlier call left in the state, because redlock's scripts change
// neither globals nor libraries. The scripts of others are executed by miniredis.

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/redlock-go/redlock/internal/farexpiry"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/wire"
)

// own has the compiled scripts of redlock by digest. A Proto is shared by all states.
var own = sync.OnceValue(func() map[string]*lua.FunctionProto {
	protos := make(map[string]*lua.FunctionProto)
	for _, text := range append([]string{incarnation.Script()}, wire.AllScripts()...) {
		if proto, err := compile(text); err == nil { // otherwise miniredis reports the error
			protos[digest(text)] = proto
		}
	}
	return protos
})

// ofProcess has the compiled texts of batch.lua and slots.lua for one process of a server by digest, as far as they were loaded. There are as many as
// masters at a time: see runIDs.
var ofProcess sync.Map

// loadOwn compiles a script that is a text for one process, and reports whether it is.
func loadOwn(text string) bool {
	if slices.Contains(wire.AllScripts(), text) || wire.Name(text) == "" {
		return false
	}
	proto, err := compile(text)
	if err == nil {
		ofProcess.Store(digest(text), proto)
	}
	return err == nil
}

// compiled returns a script of redlock, or nil if it is another one.
func compiled(digest string) *lua.FunctionProto {
	if proto := own()[digest]; proto != nil {
		return proto
	}
	proto, _ := ofProcess.Load(digest)
	script, _ := proto.(*lua.FunctionProto)
	return script
}

// compile compiles a script under the names that miniredis gives it, which stand in errors.
func compile(text string) (*lua.FunctionProto, error) {
	chunk, err := parse.Parse(strings.NewReader(text), "<string>")
	if err != nil {
		return nil, err
	}
	return lua.Compile(chunk, "")
}

func digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// interpreters has the interpreters that no call uses at the moment. They have no channels and no timers, so that all synctest
// bubbles may share them.
var interpreters sync.Pool

// An interpreter executes scripts one after the other.
type interpreter struct {
	state *lua.LState
	in    *bufio.Reader
	out   bytes.Buffer
	peer  *server.Peer // executes the commands that a script calls; writes to out
	write *bufio.Writer
	srv   *server.Server // of the current call
	sha   string         // of the current call
}

// newInterpreter returns an interpreter. The context is that of a command called by a script: see scripts.nested.
func newInterpreter(context any) *interpreter {
	i := &interpreter{state: lua.NewState(lua.Options{SkipOpenLibs: true})}
	i.write = bufio.NewWriter(&i.out)
	i.in = bufio.NewReader(&i.out)
	i.peer = server.NewPeer(i.write)
	i.peer.Ctx = context
	for _, lib := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage},
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
		{lua.StringLibName, lua.OpenString},
		{lua.MathLibName, lua.OpenMath},
	} {
		i.state.Push(i.state.NewFunction(lib.open))
		i.state.Push(lua.LString(lib.name))
		i.state.Call(1, 0)
	}
	i.state.SetGlobal("redis", i.state.SetFuncs(i.state.NewTable(), map[string]lua.LGFunction{
		"call":        func(l *lua.LState) int { return i.call(l, true) },
		"pcall":       func(l *lua.LState) int { return i.call(l, false) },
		"error_reply": errorReply,
		"sha1hex":     sha1hex,
	}))
	library := i.state.GetGlobal("string").(*lua.LTable)
	library.RawSetString("match", i.state.NewFunction(remembered(library.RawGetString("match").(*lua.LFunction).GFunction)))
	if err := i.state.DoString(strict); err != nil {
		panic("redlocktest: bug: " + err.Error())
	}
	return i
}

// remembered returns string.match that remembers what it has returned. Scripts match the same members of queues and the same notes again and
// again, and gopher-lua compiles the pattern each time, which took a quarter of the time of a crowd.
func remembered(match lua.LGFunction) lua.LGFunction {
	const most = 20000
	results := make(map[[2]lua.LString][]lua.LValue)
	return func(l *lua.LState) int {
		s, isString := l.Get(1).(lua.LString)
		pattern, isPattern := l.Get(2).(lua.LString)
		if !isString || !isPattern || l.GetTop() != 2 {
			return match(l)
		}
		key := [2]lua.LString{s, pattern}
		found, ok := results[key]
		if !ok {
			n := match(l) // or an error, which is not remembered
			for at := l.GetTop() - n; at < l.GetTop(); at++ {
				found = append(found, l.Get(at+1))
			}
			if len(results) == most {
				clear(results)
			}
			results[key] = found
			return n
		}
		for _, v := range found {
			l.Push(v)
		}
		return len(found)
	}
}

// strict raises an error where a script uses a global that does not exist, as Redis and miniredis do. KEYS and ARGV are set from
// outside of Lua.
const strict = `
setmetatable(_G, {
	__newindex = function(_, name)
		error("Script attempted to create global variable '" .. tostring(name) .. "'", 2)
	end,
	__index = function(_, name)
		error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
	end,
})
`

// parameters are what follows the digest of a script in a call: the number of keys, the keys, and the arguments.
func parameters(args []string) (keys, others []string, ok bool) {
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 || n >= len(args) {
		return nil, nil, false
	}
	return args[1 : n+1], args[n+1:], true
}

// run executes a script as EVALSHA does, writes the reply, and reports whether the script succeeded. After an error the
// interpreter must not be used again. The caller has locked miniredis.
func (i *interpreter) run(srv *server.Server, p *server.Peer, script *lua.FunctionProto, sha string, keys, args []string) bool {
	i.srv, i.sha = srv, sha
	l := i.state
	l.G.Global.RawSetString("KEYS", list(l, keys))
	l.G.Global.RawSetString("ARGV", list(l, args))
	l.Push(l.NewFunctionFromProto(script))
	if err := l.PCall(0, lua.MultRet, nil); err != nil {
		// miniredis uses the message as a format.
		p.WriteError(fmt.Sprintf("ERR Error compiling script (new function): "+err.Error(), []any{}...))
		return false
	}
	writeReply(l, p, l.Get(1))
	l.SetTop(0)
	return true
}

func list(l *lua.LState, values []string) *lua.LTable {
	t := l.CreateTable(len(values), 0)
	for _, v := range values {
		t.Append(lua.LString(v))
	}
	return t
}

// call executes a command for a script. If the command fails, redis.call raises the error, and redis.pcall returns it.
func (i *interpreter) call(l *lua.LState, raise bool) int {
	args := make([]string, l.GetTop())
	for n := range args {
		switch a := l.Get(n + 1).(type) {
		case lua.LNumber:
			args[n] = a.String()
		case lua.LString:
			args[n] = string(a)
		default:
			l.Error(lua.LString(fmt.Sprintf("Lua redis lib command arguments must be strings or integers script: %s, &c.", i.sha)), 1)
		}
	}
	if len(args) == 0 {
		l.Error(lua.LString(fmt.Sprintf("Please specify at least one argument for this redis lib call script: %s, &c.", i.sha)), 1)
	}
	reply, err := i.dispatch(args)
	if err == nil {
		l.Push(value(l, reply))
		return 1
	}
	message := err.Error()
	unknown := strings.Contains(message, "ERR unknown command")
	switch {
	case raise && unknown:
		message = fmt.Sprintf("Unknown Redis command called from script script: %s, &c.", i.sha)
	case unknown:
		message = "ERR Unknown Redis command called from script"
	}
	if raise {
		l.Error(lua.LString(message), 1)
	}
	l.Push(field(l, "err", message))
	return 1
}

// dispatch executes a command on the master.
func (i *interpreter) dispatch(command []string) (any, error) {
	i.out.Reset()
	i.in.Reset(&i.out)
	i.srv.Dispatch(i.peer, command)
	i.write.Flush()
	if text := i.out.Bytes(); len(text) > 3 && text[0] == ':' { // an integer, which ParseReply makes an int
		return strconv.ParseInt(string(text[1:len(text)-2]), 10, 64)
	}
	return server.ParseReply(i.in)
}

// value returns a reply as a value of Lua.
func value(l *lua.LState, reply any) lua.LValue {
	switch r := reply.(type) {
	case nil:
		return lua.LFalse
	case int:
		return lua.LNumber(r)
	case int64:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case server.Simple:
		return field(l, "ok", string(r))
	case []any:
		t := l.CreateTable(len(r), 0)
		for _, element := range r {
			t.Append(value(l, element))
		}
		return t
	}
	panic(fmt.Sprintf("redlocktest: bug: a reply is a %T", reply))
}

func field(l *lua.LState, name, text string) *lua.LTable {
	t := l.CreateTable(0, 1)
	t.RawSetString(name, lua.LString(text))
	return t
}

// errorReply is redis.error_reply.
func errorReply(l *lua.LState) int {
	message, ok := l.Get(1).(lua.LString)
	if !ok {
		l.Error(lua.LString("wrong number or type of arguments"), 1)
	}
	text := strings.TrimPrefix(string(message), "-")
	if !strings.Contains(text, " ") {
		text = "ERR " + text
	}
	l.Push(field(l, "err", text))
	return 1
}

// sha1hex is redis.sha1hex.
func sha1hex(l *lua.LState) int {
	if l.GetTop() != 1 {
		l.Error(lua.LString("wrong number of arguments"), 1)
	}
	l.Push(lua.LString(digest(lua.LVAsString(l.Get(1)))))
	return 1
}

// writeReply writes a value that a script has returned.
func writeReply(l *lua.LState, p *server.Peer, v lua.LValue) {
	switch v := v.(type) {
	case *lua.LNilType:
		p.WriteNull()
	case lua.LBool:
		if v {
			p.WriteInt(1)
		} else {
			p.WriteNull()
		}
	case lua.LNumber:
		farexpiry.WriteInt(p, int64(v)) // a fence, or a time
	case lua.LString:
		p.WriteBulk(string(v))
	case *lua.LTable:
		if message := v.RawGetString("err"); message != lua.LNil {
			p.WriteError(message.String())
			return
		}
		if status := v.RawGetString("ok"); status != lua.LNil {
			p.WriteInline(status.String())
			return
		}
		n := 0
		for v.RawGetInt(n+1) != lua.LNil {
			n++
		}
		p.WriteLen(n)
		for k := range n {
			writeReply(l, p, v.RawGetInt(k+1))
		}
	default:
		panic(fmt.Sprintf("redlocktest: bug: a script has returned a %s", v.Type()))
	}
}
