package master

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/redisconn"
)

// A refusal says why a server that answers may not vote.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// Judge returns why a server may not vote, by its reply to INFO, or nil if it may or does not tell.
//
//   - A replica may lag behind its master, and lose writes.
//   - A cluster moves keys to other servers, and restricts which keys a script may use.
//   - If a lock's key is evicted, a second client can acquire the lock.
//   - A Sentinel watches over other servers and keeps no keys.
func Judge(info string) error {
	if InfoField(info, "redis_mode") == "sentinel" {
		return &refusal{"it is a Sentinel, which keeps no locks: give the addresses of independent servers instead"}
	}
	if err := judgeRole(info); err != nil {
		return err
	}
	if InfoField(info, "cluster_enabled") == "1" {
		return &refusal{"it is part of a cluster: a lock's masters must be independent of each other"}
	}
	policy := InfoField(info, "maxmemory_policy")
	if limit := InfoField(info, "maxmemory"); policy != "" && policy != "noeviction" && limit != "" && limit != "0" {
		return &refusal{fmt.Sprintf("its maxmemory-policy, %s, may evict locks: it must be noeviction", policy)}
	}
	return nil
}

// judgeRole is Judge for INFO's section replication alone.
func judgeRole(info string) error {
	if role := InfoField(info, "role"); role != "" && role != "master" {
		return errReplica
	}
	return nil
}

var errReplica = &refusal{"it is a replica: a lock's masters must be independent of each other"}

// InfoField returns a field of the reply to INFO, made printable, or "".
func InfoField(info, field string) string {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(line, ":"); ok && name == field {
			return redisconn.ServerText(strings.TrimSpace(value))
		}
	}
	return ""
}

// isLegacy reports whether a server keeps scripts when it restarts, as Redis before 7 does.
func isLegacy(info string) bool {
	major, _, _ := strings.Cut(InfoField(info, "redis_version"), ".")
	n, err := strconv.Atoi(major)
	return err == nil && n < 7
}
