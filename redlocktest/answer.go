package redlocktest

// This file answers two commands in place of miniredis: the restart guard's probe, and INFO server.

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// probe is the name under which the restart guard's probe is counted, and under which faults apply to it. It is
// the call of a script, and follows every vote. Under the name EVALSHA it would hide the other calls.
const probe = "PROBE"

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

// runIDs are the run_ids of this process, in the form that Redis gives them. A client loads a script that contains the run_id, and a
// script that is new takes miniredis long to parse. So a run_id is used again when the test that used it has ended.
var runIDs struct {
	mu   sync.Mutex // guards the fields below
	made int
	free []string // used again, the last first
}

// newRunIDLocked gives the master a run_id that none has that is in use.
func (m *Master) newRunIDLocked() {
	runIDs.mu.Lock()
	defer runIDs.mu.Unlock()
	if n := len(runIDs.free); n > 0 {
		m.run, runIDs.free = runIDs.free[n-1], runIDs.free[:n-1]
	} else {
		runIDs.made++
		id := sha1.Sum([]byte("redlocktest " + strconv.Itoa(runIDs.made)))
		m.run = hex.EncodeToString(id[:])
	}
	m.runs = append(m.runs, m.run)
}

// giveRunIDsBack lets other masters have the run_ids of this one, which is not used any more.
func (m *Master) giveRunIDsBack() {
	m.mu.Lock()
	defer m.mu.Unlock()
	runIDs.mu.Lock()
	defer runIDs.mu.Unlock()
	slices.Reverse(m.runs)
	runIDs.free = append(runIDs.free, m.runs...)
	m.runs = nil
}

// A replier has the buffers for a reply. They have no channels and no timers, so that all synctest
// bubbles may share them.
type replier struct {
	out   bytes.Buffer
	write *bufio.Writer
}

var repliers = sync.Pool{New: func() any {
	r := &replier{}
	r.write = bufio.NewWriter(&r.out)
	return r
}}

// reply executes a command as a script would, and returns the reply. The Master may be stopping: miniredis then
// has no server any more, but srv still executes commands.
func reply(srv *server.Server, command ...string) string {
	return replyOf(func(p *server.Peer) { srv.Dispatch(p, command) })
}

// replyOf returns what f writes to its peer.
func replyOf(f func(*server.Peer)) string {
	r := repliers.Get().(*replier)
	r.out.Reset()
	f(server.NewPeer(r.write))
	r.write.Flush()
	text := r.out.String()
	repliers.Put(r)
	return text
}
