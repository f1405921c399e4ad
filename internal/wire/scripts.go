package wire

import (
	"bufio"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"
)

// The scripts. Each begins with a description of its commands and their answers. Ahead of that is a line for Dragonfly if the script
// touches keys that its calls do not declare: see docs/support.md.
var (
	//go:embed batch.lua
	batchText string
	batchLua  = newLua("batch", batchText) // commands on locks
	//go:embed set.lua
	setText string
	setLua  = newLua("set", setText) // acquisitions of several names
	//go:embed slots.lua
	slotsText string
	slotsLua  = newLua("slots", slotsText) // commands on semaphores
	//go:embed members.lua
	membersText string
	membersLua  = newLua("members", membersText) // reads a queue
	//go:embed taken.lua
	takenText string
	takenLua  = newLua("taken", takenText) // reads the slots of a semaphore
	//go:embed flight.lua
	flightText string
	flightLua  = newLua("flight", flightText) // sends a value to those who wait

	// Parts of the scripts above.

	//go:embed readers.lua
	readersText string
	//go:embed queue.lua
	queueText string
	//go:embed fences.lua
	fencesText string
	//go:embed recall.lua
	recallText string
)

// A lua is a script, and the Request to load it. All of it is made when it is first needed: a program that imports this package may need
// nothing, and begins earlier. Most processes need digests only, since the servers have the scripts.
type lua struct {
	name   string // immutable; that of its file without .lua
	owns   bool   // immutable; a process has a text of its own: see Own
	before func() string
	behind func() string      // what is behind runLine, if the script has that line
	begun  func() hash.Cloner // a hash of before
	sha    func() any         // boxed once for redigo
}

// runLine is in the scripts of which a process has a text of its own.
const runLine = "-- Here a text for one process sets run.\n"

func newLua(name, file string) *lua {
	before, behind, owns := strings.Cut(file, runLine)
	l := &lua{name: name, owns: owns}
	l.before = sync.OnceValue(func() string { return included(before) })
	l.behind = sync.OnceValue(func() string { return included(behind) })
	l.begun = sync.OnceValue(func() hash.Cloner {
		h := sha1.New()
		w := bufio.NewWriter(h)
		include(w, before)
		w.Flush()
		return h.(hash.Cloner)
	})
	l.sha = sync.OnceValue(func() any { return l.digest(runLine) })
	return l
}

func (l *lua) Kind() Kind { return Load }

func (l *lua) text() string { return l.with(runLine) }

// with returns the text with another line in the place of runLine.
func (l *lua) with(line string) string {
	if !l.owns {
		return l.before()
	}
	return l.before() + line + l.behind()
}

// digest returns the digest of with(line).
func (l *lua) digest(line string) any {
	h, _ := l.begun().Clone() // sha1 can be cloned
	if l.owns {
		h.Write([]byte(line))
		h.Write([]byte(l.behind()))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func included(file string) string {
	var b strings.Builder
	include(&b, file)
	return b.String()
}

// include writes a file. It puts the files that this includes into the places of its lines that say so, and the values of constants into theirs.
// Calls that end before a line with a file do not make the functions behind it.
func include(w io.StringWriter, file string) {
	parts := map[string]string{"readers.lua": readersText, "queue.lua": queueText, "fences.lua": fencesText, "recall.lua": recallText}
	for {
		before, rest, found := strings.Cut(file, "-- include ")
		writeConstants(w, before)
		if !found {
			return
		}
		name, rest, _ := strings.Cut(rest, "\n")
		part, is := parts[name]
		if !is {
			panic("redlock: bug: a script includes " + name)
		}
		writeConstants(w, part)
		file = rest
	}
}

// BatchMost is the most commands that share a call: a call of the script delays the commands of other clients.
const BatchMost = 128

var allLua = []*lua{batchLua, setLua, slotsLua, membersLua, takenLua, flightLua}

// AllScripts returns all scripts of this package.
func AllScripts() (texts []string) {
	for _, script := range allLua {
		texts = append(texts, script.text())
	}
	return texts
}

// Name returns the name of a script by its text, or by its text for some process: see OwnOf. It is that of the script's file without
// .lua; "": it is none of ours.
func Name(text string) string {
	for _, script := range allLua {
		if script.text() == text {
			return script.name
		}
	}
	for _, script := range owned {
		line := strings.TrimSuffix(strings.TrimPrefix(text, script.before()), script.behind())
		run := strings.TrimSuffix(strings.TrimPrefix(line, beforeRunID), afterRunID)
		if isRunID(run) && text == script.with(setsRun(run)) {
			return script.name
		}
	}
	return ""
}

// Scripts returns the scripts that are loaded on connecting, unless the server has them.
func Scripts() []string { return []string{batchLua.text()} }

// ScriptsExist returns the question whether a server has the Scripts.
func ScriptsExist() []any { return []any{"EXISTS", batchLua.sha()} }

// An Own is what one process of a server has of batch.lua and slots.lua: their texts with its run_id as a constant. A grant tells the
// run_id, and INFO costs the server as much as a third of what passes a lock on. The process of another run_id does not have these texts, and
// answers NOSCRIPT: so they must be loaded only ahead of an inspection, on the same connection, that finds this run_id.
type Own struct {
	run  string // immutable
	shas []any  // immutable; of the texts
}

// OwnTexts is how many texts a process has.
const OwnTexts = 2

// owned are the scripts of which a process has a text of its own.
var owned = [OwnTexts]*lua{batchLua, slotsLua}

// setsRun returns the line that the text for the process with a run_id has in the place of runLine. The digest of what is before it is the same for all
// servers of a client.
func setsRun(run string) string { return beforeRunID + run + afterRunID }

const (
	beforeRunID = "run = '"
	afterRunID  = "'\n"
)

// isRunID reports whether a run_id is in the form that Redis gives it.
func isRunID(run string) bool {
	return len(run) == 40 && strings.Trim(run, "0123456789abcdef") == ""
}

// OwnOf returns the texts for the process with a run_id, or nil if that is not in the form that Redis gives it.
func OwnOf(run string) *Own {
	if !isRunID(run) {
		return nil
	}
	o := &Own{run: run}
	for _, script := range owned {
		o.shas = append(o.shas, script.digest(setsRun(run)))
	}
	return o
}

// Texts returns the texts; none for nil. They take more than 100 KB, and most servers have them already, so they are not kept.
func (o *Own) Texts() (texts []string) {
	if o == nil {
		return nil
	}
	for _, script := range owned {
		texts = append(texts, script.with(setsRun(o.run)))
	}
	return texts
}

// sha returns the digest of the text of a script, or nil if there is none.
func (o *Own) sha(script *lua) any {
	i := indexOfOwn(script)
	if o == nil || i < 0 {
		return nil
	}
	return o.shas[i]
}

func indexOfOwn(script *lua) int { return slices.Index(owned[:], script) }

// Exists is the question whether a server has the texts.
func (o *Own) Exists() []any { return append([]any{"EXISTS"}, o.shas...) }
