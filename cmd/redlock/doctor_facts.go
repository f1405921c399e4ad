package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/wire"
)

// facts are what a server says about its settings. Text is empty where it does not say.
type facts struct {
	server      string // such as redis 7.0.15
	version     string // such as 7.0.15
	policy      string // maxmemory-policy
	used, limit int64  // memory in bytes; limit 0: no limit
	aof         string // appendfsync, or off
	snapshots   string // on or off
}

// factsOf reads the reply to INFO.
func factsOf(info string) facts {
	f := facts{policy: wire.InfoField(info, "maxmemory_policy")}
	name := cmp.Or(wire.InfoField(info, "server_name"), "redis")
	f.version = cmp.Or(wire.InfoField(info, name+"_version"), wire.InfoField(info, "redis_version"))
	if f.version != "" {
		f.server = cut(name+" "+f.version, 16)
	}
	f.used, _ = strconv.ParseInt(wire.InfoField(info, "used_memory"), 10, 64)
	f.limit, _ = strconv.ParseInt(wire.InfoField(info, "maxmemory"), 10, 64)
	switch wire.InfoField(info, "aof_enabled") {
	case "0":
		f.aof = "off"
	case "1":
		f.aof = "on"
	}
	return f
}

// cut returns text, cut to a number of runes.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// ask asks for settings that INFO does not have. Clients need no right to that, so a refusal is no failure: then
// it remains unknown. An error means that the connection is lost.
func (f *facts) ask(conn redis.Conn) error {
	for _, setting := range []string{"appendfsync", "save"} {
		values, err := redis.StringMap(conn.Do("CONFIG", "GET", setting))
		switch value, ok := values[setting]; {
		case err != nil && conn.Err() != nil:
			return err
		case err != nil || !ok:
		case setting == "save":
			f.snapshots = map[bool]string{true: "on", false: "off"}[value != ""]
		case f.aof == "on" && slices.Contains([]string{"always", "everysec", "no"}, value):
			f.aof = value
		}
	}
	return nil
}

// list returns the settings in words.
func (f facts) list(maxTTL time.Duration) (words []string) {
	if maxTTL > 0 {
		words = append(words, "MaxTTL "+long(maxTTL))
	}
	if f.policy != "" {
		words = append(words, f.policy)
	}
	if f.aof != "" {
		words = append(words, "AOF "+f.aof)
	}
	if f.snapshots != "" {
		words = append(words, "snapshots "+f.snapshots)
	}
	return words
}

// oldestMajor and oldestMinor are the oldest version of Redis that is supported.
const oldestMajor, oldestMinor = 6, 2

// remarks says what is wrong with the settings, if anything is.
func (f facts) remarks() (remarks []string) {
	var major, minor int
	if n, _ := fmt.Sscanf(f.version, "%d.%d", &major, &minor); n == 2 && (major < oldestMajor || major == oldestMajor && minor < oldestMinor) {
		remarks = append(remarks, fmt.Sprintf("version %s is older than %d.%d, the oldest that is supported", f.version, oldestMajor, oldestMinor))
	}
	if f.policy != "" && f.policy != "noeviction" { // with a limit it must not vote
		remarks = append(remarks, fmt.Sprintf("its maxmemory-policy, %s, will evict locks if maxmemory is set: use noeviction", f.policy))
	}
	if f.limit > 0 && f.used > f.limit/10*9 {
		remarks = append(remarks, fmt.Sprintf("it uses %.0f%% of its maxmemory; at 100%% it grants no locks", 100*float64(f.used)/float64(f.limit)))
	}
	return remarks
}
