package wire

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/gomodule/redigo/redis"
)

// The scripts. Each begins with a description of its commands and their answers. Ahead of that is a line for Dragonfly if the script
// touches keys that its calls do not declare: see docs/support.md.
var (
	//go:embed batch.lua
	batchText   string
	batchScript = include(batchText) // commands on locks
	//go:embed set.lua
	setText   string
	setScript = include(setText) // acquisitions of several names
	//go:embed slots.lua
	slotsText   string
	slotsScript = include(slotsText) // commands on semaphores
	//go:embed members.lua
	membersScript string // reads a queue
	//go:embed taken.lua
	takenScript string // reads the slots of a semaphore
	//go:embed flight.lua
	flightScript string // sends a value to those who wait

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

var parts = map[string]string{"readers.lua": readersText, "queue.lua": queueText, "fences.lua": fencesText, "recall.lua": recallText}

// include puts the files that a script includes into the places of its lines that say so, and the values of constants into theirs. Calls
// that end before a line with a file do not make the functions behind it.
func include(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "-- include ")
		b.WriteString(before)
		if !found {
			return Constants(b.String())
		}
		name, rest, _ := strings.Cut(rest, "\n")
		part, is := parts[name]
		if !is {
			panic("redlock: bug: a script includes " + name)
		}
		b.WriteString(part)
		text = rest
	}
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
	setLua     = &lua{setScript, hash(setScript)}
	flightLua  = &lua{flightScript, hash(flightScript)}
	slotsLua   = &lua{slotsScript, hash(slotsScript)}
	membersSHA = hash(membersScript)
	takenSHA   = hash(takenScript)
)

func hash(script string) string { return redis.NewScript(-1, script).Hash() }

// BatchMost is the most commands that share a call: a call of the script delays the commands of other clients.
const BatchMost = 128

// AllScripts are all scripts of this package.
var AllScripts = []string{batchScript, setScript, slotsScript, membersScript, takenScript, flightScript}

// Name returns the name of a script by its text, or by its text for some process: see OwnOf. It is that of the script's file without
// .lua; "": it is none of ours.
func Name(text string) string {
	i := slices.Index(AllScripts, text)
	if i >= 0 {
		return [...]string{"batch", "set", "slots", "members", "taken", "flight"}[i]
	}
	for _, own := range ownTexts {
		rest, begins := strings.CutPrefix(text, own.before)
		run, ends := strings.CutSuffix(rest, own.after)
		if begins && ends && isRunID(run) {
			return Name(own.of.text)
		}
	}
	return ""
}

// Scripts are the scripts that are loaded on connecting, unless the server has them.
var Scripts = []string{batchScript}

// ScriptsExist is the question whether a server has the Scripts.
var ScriptsExist = []any{"EXISTS", batchLua.sha}

// An Own is what one process of a server has of batch.lua and slots.lua: their texts with its run_id as a constant. A grant tells the
// run_id, and INFO costs the server as much as a third of what passes a lock on. The process of another run_id does not have these texts, and
// answers NOSCRIPT: so they must be loaded only ahead of an inspection, on the same connection, that finds this run_id.
type Own struct {
	Texts []string // immutable
	shas  []any    // immutable; of the texts
}

// ownTexts are the scripts of which a process has a text of its own.
var ownTexts = []ownText{newOwnText(batchLua), newOwnText(slotsLua)}

// An ownText is what stands before and behind the run_id in the text of a script for a process.
type ownText struct {
	of            *lua
	before, after string
}

// runIDLine is the line of a script that becomes the constant.
const runIDLine = "\nlocal run\n"

func newOwnText(of *lua) ownText {
	before, after, _ := strings.Cut(of.text, runIDLine)
	return ownText{of, before + "\nlocal run = '", "'\n" + after}
}

// isRunID reports whether a run_id is in the form that Redis gives it.
func isRunID(run string) bool {
	return len(run) == 40 && strings.Trim(run, "0123456789abcdef") == ""
}

// OwnOf returns the texts for the process with a run_id, which must not be changed, or nil if that is not in the form that Redis gives it.
func OwnOf(run string) *Own {
	if !isRunID(run) {
		return nil
	}
	owns.Lock()
	defer owns.Unlock()
	if o := owns.of[run].Value(); o != nil {
		return o
	}
	o := &Own{}
	for _, own := range ownTexts {
		text := own.before + run + own.after
		o.Texts = append(o.Texts, text)
		o.shas = append(o.shas, hash(text))
	}
	maps.DeleteFunc(owns.of, func(_ string, o weak.Pointer[Own]) bool { return o.Value() == nil })
	owns.of[run] = weak.Make(o)
	return o
}

// owns are the texts that some Client of this process uses, by run_id: all Clients share them.
var owns = struct {
	sync.Mutex
	of map[string]weak.Pointer[Own]
}{of: make(map[string]weak.Pointer[Own])}

// sha returns the digest of the text of a script, or nil if there is none.
func (o *Own) sha(script *lua) any {
	i := indexOfOwn(script)
	if o == nil || i < 0 {
		return nil
	}
	return o.shas[i]
}

func indexOfOwn(script *lua) int {
	return slices.IndexFunc(ownTexts, func(own ownText) bool { return own.of == script })
}

// Exists is the question whether a server has the texts.
func (o *Own) Exists() []any { return append([]any{"EXISTS"}, o.shas...) }
