package wire

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// The scripts. Each begins with a description of its commands and their answers. Ahead of that is a line for Dragonfly if the script
// touches keys that its calls do not declare: see docs/support.md.
var (
	//go:embed batch.lua
	batchText   string
	batchScript = include(batchText) // commands on locks
	//go:embed readers.lua
	readersText   string
	readersScript = include(readersText) // commands of readers
	//go:embed set.lua
	setText   string
	setScript = include(setText) // acquisitions of several names
	//go:embed slots.lua
	slotsScript string // commands on semaphores
	//go:embed queue.lua
	queueScript string // reads a queue
	//go:embed taken.lua
	takenScript string // reads the slots of a semaphore
	//go:embed flight.lua
	flightScript string // sends a value to those who wait
	//go:embed fences.lua
	fencesText string // included by the others
	//go:embed recall.lua
	recallText string // the same
)

// include puts the files that a script includes into the places of its lines that say so. Calls that end before such a line
// do not make the functions behind it.
func include(text string) string {
	return strings.NewReplacer("-- include fences.lua\n", fencesText, "-- include recall.lua\n", recallText).Replace(text)
}

// A lua is a script whose commands share calls, and the Request to load it.
type lua struct {
	text string
	sha  any // boxed once for redigo
}

// Kind implements Request.
func (l *lua) Kind() Kind { return Load }

var (
	batchLua   = &lua{batchScript, hash(batchScript)}
	readersLua = &lua{readersScript, hash(readersScript)}
	setLua     = &lua{setScript, hash(setScript)}
	flightLua  = &lua{flightScript, hash(flightScript)}
	slotsLua   = &lua{slotsScript, hash(slotsScript)}
	queueSHA   = hash(queueScript)
	takenSHA   = hash(takenScript)
)

func hash(script string) string { return redis.NewScript(-1, script).Hash() }

// BatchMost is the most commands that share a call: a call of the script delays the commands of other clients.
const BatchMost = 128

// AllScripts are all scripts of this package.
var AllScripts = []string{batchScript, readersScript, setScript, slotsScript, queueScript, takenScript, flightScript}

// Name returns the name of a script by its text, as that of its file without .lua; "": it is none of ours.
func Name(text string) string {
	i := slices.Index(AllScripts, text)
	switch {
	case i >= 0:
		return [...]string{"batch", "readers", "set", "slots", "queue", "taken", "flight"}[i]
	case IsOwn(text):
		return "batch"
	}
	return ""
}

// Scripts are the scripts that are loaded on connecting, unless the server has them.
var Scripts = []string{batchScript, readersScript}

// ScriptsExist is the question whether a server has the Scripts.
var ScriptsExist = []any{"EXISTS", batchLua.sha, readersLua.sha}

// An Own is batch.lua with the run_id of one process of a server as a constant. A grant tells the run_id, and INFO costs the server as
// much as a third of what passes a lock on. The process of another run_id does not have this text, and answers NOSCRIPT: so it must be
// loaded only ahead of an inspection, on the same connection, that finds this run_id.
type Own struct {
	Text string // immutable
	sha  any    // immutable
}

// runIDLine is the line of batch.lua that becomes the constant.
const runIDLine = "\nlocal run\n"

// beforeRunID and afterRunID are what stands before and behind the run_id in the text for a process.
var beforeRunID, afterRunID = func() (string, string) {
	before, after, _ := strings.Cut(batchScript, runIDLine)
	return before + "\nlocal run = '", "'\n" + after
}()

// isRunID reports whether a run_id is in the form that Redis gives it.
func isRunID(run string) bool {
	return len(run) == 40 && strings.Trim(run, "0123456789abcdef") == ""
}

// OwnOf returns the text for the process with a run_id, or nil if that is not in the form that Redis gives it.
func OwnOf(run string) *Own {
	if !isRunID(run) {
		return nil
	}
	text := beforeRunID + run + afterRunID
	return &Own{text, hash(text)}
}

// IsOwn reports whether a script is the text for some process.
func IsOwn(text string) bool {
	rest, begins := strings.CutPrefix(text, beforeRunID)
	run, ends := strings.CutSuffix(rest, afterRunID)
	return begins && ends && isRunID(run)
}

// Exists is the question whether a server has the text.
func (o *Own) Exists() []any { return []any{"EXISTS", o.sha} }
