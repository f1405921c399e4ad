package redlocktest

// This file answers two commands in place of miniredis: the restart guard's probe, and INFO server.

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// probe is the name under which the restart guard's probe is counted, and under which faults apply to it. It is
// the call of a script, and follows every vote. Under the name EVALSHA it would hide the other calls.
const probe = "PROBE"

// isProbe reports whether a command is the restart guard's probe. One with a further argument also finds out whether keys
// were evicted, which miniredis never does.
func isProbe(command string, args []string) bool {
	return command == "EVALSHA" && (len(args) == 3 || len(args) == 4) && args[2] == incarnation.Key
}

// answerProbe answers a probe without running its script, which returns the record's PTTL. Each record has a script of its own, which
// would have to be compiled.
func (m *Master) answerProbe(srv *server.Server, p *server.Peer, script string) {
	if !m.scripts.exist(srv, script) {
		p.WriteError("NOSCRIPT No matching script. Please use EVAL.")
		return
	}
	p.WriteRaw(reply(srv, "PTTL", incarnation.Key))
}

// isServerInfo reports whether a command asks for the section of INFO that has the run_id. The script that
// inspects a master's record asks for it as well.
func isServerInfo(command string, args []string) bool {
	return command == "INFO" && len(args) == 1 && strings.EqualFold(args[0], "server")
}

// answerServerInfo answers INFO server, which miniredis does not implement.
func (m *Master) answerServerInfo(p *server.Peer) {
	m.mu.Lock()
	run := m.run
	m.mu.Unlock()
	p.WriteBulk("# Server\r\nrun_id:" + run + "\r\n")
}

// newRunID returns a run_id in the form that Redis gives it.
func newRunID() string {
	var id [20]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
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
