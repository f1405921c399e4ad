package redlocktest

import (
	"bufio"
	"bytes"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// probe is the name under which the restart guard's probe is counted, and under which faults apply to it. It is
// the call of a script, and follows every vote. Under the name EVALSHA it would hide the other calls.
const probe = "PROBE"

// isProbe reports whether a command is the restart guard's probe.
func isProbe(command string, args []string) bool {
	return command == "EVALSHA" && len(args) == 3 && args[2] == incarnation.Key
}

// isRunQuestion reports whether a command asks for the run_id, which miniredis does not have.
func isRunQuestion(command string, args []string) bool {
	return command == "INFO" && len(args) == 1 && args[0] == "server"
}

// answerProbe answers a probe without running its script, which returns the record's PTTL. miniredis makes a new
// Lua state for each call, which would make tests twice as slow.
func answerProbe(srv *server.Server, p *server.Peer, script string) {
	if reply(srv, "SCRIPT", "EXISTS", script) != "*1\r\n:1\r\n" {
		p.WriteError("NOSCRIPT No matching script. Please use EVAL.")
		return
	}
	p.WriteRaw(reply(srv, "PTTL", incarnation.Key))
}

// reply executes a command as a script would, and returns the reply. The Master may be stopping: miniredis then
// has no server any more, but srv still executes commands.
func reply(srv *server.Server, command ...string) string {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	srv.Dispatch(server.NewPeer(w), command)
	w.Flush()
	return out.String()
}
