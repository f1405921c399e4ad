package wire

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisconn"
)

// A Refusal says why a server that answers may not vote.
type Refusal struct {
	Reason string // one printable line
}

func (r *Refusal) Error() string { return r.Reason }

// Judge returns why a server may not vote, by its reply to INFO, or nil if it may or does not tell.
//
//   - A replica may lag behind its master, and lose writes.
//   - A cluster moves keys to other servers, and restricts which keys a script may use.
//   - If a lock's key is evicted, a second client can acquire the lock.
//   - A Sentinel watches over other servers and keeps no keys.
func Judge(info string) error {
	if InfoField(info, "redis_mode") == "sentinel" {
		return &Refusal{"it is a Sentinel, which keeps no locks: give the addresses of independent servers instead"}
	}
	if err := JudgeRole(info); err != nil {
		return err
	}
	if InfoField(info, "cluster_enabled") == "1" {
		return &Refusal{"it is part of a cluster: a lock's masters must be independent of each other"}
	}
	return JudgeMemory(info)
}

// JudgeMemory is Judge for INFO's section memory alone.
func JudgeMemory(info string) error {
	policy := InfoField(info, "maxmemory_policy")
	if limit := InfoField(info, "maxmemory"); policy != "" && policy != "noeviction" && limit != "" && limit != "0" {
		return &Refusal{fmt.Sprintf("its maxmemory-policy, %s, may evict locks: it must be noeviction", policy)}
	}
	return nil
}

// refusals are how the error replies of a server begin that refuses writes.
var refusals = []string{"OOM command not allowed", "OOM allow-oom", "MISCONF ", "NOREPLICAS ", "READONLY "}

// IsReadOnly reports whether an error reply says that the server is a replica, which does not write.
func IsReadOnly(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "READONLY") }

// IsNoScript reports whether an error reply says that the server does not have the script that it was to run.
func IsNoScript(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") }

// RefusesWrites reports whether an error reply says that the server refuses to write, although it may answer other commands. Redis before
// 7 has other words before those of a command that a script calls.
func RefusesWrites(err error) bool {
	if err == nil { // as nearly always: what follows allocates
		return false
	}
	if reply := redis.Error(""); errors.As(err, &reply) {
		err = reply // not its explanation
	}
	return slices.ContainsFunc(refusals, func(begins string) bool { return strings.Contains(err.Error(), begins) })
}

// IsTight reports whether so much of a server's maxmemory is used that it may be full before the next thorough probe.
func IsTight(info string) bool {
	used, err1 := strconv.ParseUint(InfoField(info, "used_memory"), 10, 63)
	limit, err2 := strconv.ParseUint(InfoField(info, "maxmemory"), 10, 63)
	return err1 == nil && err2 == nil && limit > 0 && used > limit/4*3
}

// JudgeRole is Judge for INFO's section replication alone.
func JudgeRole(info string) error {
	if role := InfoField(info, "role"); role != "" && role != "master" {
		return ErrReplica
	}
	return nil
}

// ErrReplica says that a server is a replica.
var ErrReplica = &Refusal{"it is a replica: a lock's masters must be independent of each other"}

// InfoField returns a field of the reply to INFO, made printable, or "".
func InfoField(info, field string) string {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(line, ":"); ok && name == field {
			return redisconn.ServerText(strings.TrimSpace(value))
		}
	}
	return ""
}

// IsLegacy reports whether a server keeps scripts when it restarts, as Redis before 7 does.
func IsLegacy(info string) bool {
	major, _, _ := strings.Cut(InfoField(info, "redis_version"), ".")
	n, err := strconv.Atoi(major)
	return err == nil && n < 7
}
