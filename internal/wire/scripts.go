package wire

import (
	_ "embed"

	"github.com/gomodule/redigo/redis"
)

// The scripts. Each begins with a description of its commands and their answers.
var (
	//go:embed batch.lua
	batchScript string // commands on locks
	//go:embed readers.lua
	readersScript string // commands of readers
	//go:embed set.lua
	setScript string // acquisitions of several names
	//go:embed queue.lua
	queueScript string // reads a queue
)

// A lua is a script whose commands share calls: its hash, boxed once for redigo, and what loads it.
type lua struct {
	sha  any
	load Kind
}

var (
	batchLua   = &lua{hash(batchScript), Load}
	readersLua = &lua{hash(readersScript), LoadReaders}
	setLua     = &lua{hash(setScript), LoadSet}
	queueSHA   = hash(queueScript)
)

func hash(script string) string { return redis.NewScript(-1, script).Hash() }

// BatchMost is the most commands that share a call: a call of the script delays the commands of other clients.
const BatchMost = 128

// Scripts are the scripts that are loaded on connecting.
var Scripts = []string{batchScript, readersScript}
