package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestFactsOfAServerAreReadFromItsINFO(t *testing.T) {
	for _, tt := range []struct {
		name, info string
		server     string
		remark     string // the beginning of the only one; empty for none
	}{
		{"Redis", "redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n", "redis 7.0.15", ""},
		{"Valkey", "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.3\r\n", "valkey 8.1.3", ""},
		{"the oldest that is supported", "redis_version:6.2.0\r\n", "redis 6.2.0", ""},
		{"an old one", "redis_version:6.0.16\r\n", "redis 6.0.16", "version 6.0.16 is older than 6.2"},
		{"a very old one", "redis_version:5.0.7\r\n", "redis 5.0.7", "version 5.0.7 is older than 6.2"},
		{"nothing", "", "", ""},
		{"an odd version", "redis_version:unstable\r\n", "redis unstable", ""},
		{"a long version", "redis_version:255.255.255-unstable\r\n", "redis 255.255.2…", ""},
		{"a policy without a limit", "maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", "", "its maxmemory-policy, allkeys-lru, will evict"},
		{"almost full", "used_memory:95\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction\r\n", "", "it uses 95% of its maxmemory"},
		{"not almost full", "used_memory:80\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction\r\n", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := factsOf(tt.info)
			remarks := f.remarks()
			if f.server != tt.server || len(remarks) > 1 || (len(remarks) == 1) != (tt.remark != "") ||
				tt.remark != "" && !strings.HasPrefix(remarks[0], tt.remark) {
				t.Errorf("server %q, remarks %q, want %q, %q", f.server, remarks, tt.server, tt.remark)
			}
		})
	}
}

func TestMastersOnOneMachineAreNamedIfTheQuorumDependsOnIt(t *testing.T) {
	for _, tt := range []struct {
		hosts string
		want  string
	}{
		{"a:1 b:1 c:1", ""},
		{"a:1 a:2 c:1", "2 of 3 masters are on a: without it there are no locks. Use a machine for each.\n"},
		{"a:1 a:2 b:1 c:1 d:1", ""},
		{"a:1 a:2 a:3 c:1 d:1", "3 of 5 masters are on a: "},
		{"localhost:1 127.0.0.1:2 [::1]:3", "3 of 3 masters are on this machine: "},
		{"/run/a /run/b c:1", "2 of 3 masters are on this machine: "},
		{"[fe80::1]:1 [fe80::1]:2 c:1", "2 of 3 masters are on fe80::1: "},
		{"a:1", "One master tolerates no failure"}, // and nothing else
	} {
		t.Run(tt.hosts, func(t *testing.T) {
			var findings []finding
			for addr := range strings.FieldsSeq(tt.hosts) {
				f := found(time.Hour, false)
				f.name, f.host = addr, hostOf(addr)
				findings = append(findings, f)
			}
			got := (&doctor{maxTTL: defaultMaxTTL, agreed: defaultMaxTTL, ttl: defaultRunTTL}).diagnose(findings).String()
			if _, rest, _ := strings.Cut(got, "\n"); !strings.HasPrefix(rest, tt.want) || (tt.want == "") != (rest == "") {
				t.Errorf("got %q, want %q", rest, tt.want)
			}
		})
	}
}

func TestDoctorShowsSettingsAndClientsOnAScreen(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3, "--appendonly", "yes", "--appendfsync", "everysec", "--save", "3600 1")
	masters := listOf(servers)
	do(t, servers[1], "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	c := openQuietly(t, masters, redlock.Options{})
	hold(t, c, "stock")
	until(t, func() bool { return strings.Count(runDoctor(t, exitOK, masters), "  1\n") == 3 }) // CLIENTS
	out := runDoctor(t, exitOK, masters)
	wantNarrow(t, out)
	version := doctorSays(t, exitOK, masters).Masters[0].Server
	want(t, out, "  "+version+"  ", "MaxTTL 10s, noeviction, AOF everysec, snapshots on\n",
		"its maxmemory-policy, volatile-lru, will evict locks if maxmemory is set: use noeviction\n",
		"3 of 3 masters are on this machine: ")
	if strings.Contains(out, "\x1b") {
		t.Errorf("colors in what is no terminal: %q", out)
	}
	says := doctorSays(t, exitOK, masters).Masters[1]
	if says.Eviction != "volatile-lru" || says.AOF != "everysec" || says.Snapshots != "on" || says.Clients == nil || *says.Clients != 1 || says.Ahead == nil {
		t.Errorf("as JSON: %+v", says)
	}
	// A user with the rights of a client sees less.
	rule := aclOf(t)
	do(t, servers[0], rule[0].(string), rule[1:]...)
	own := fmt.Sprintf("redis://shop:s3kret@%s", servers[0].Addr())
	want(t, runDoctor(t, exitOK, own), "same   -\n", "MaxTTL 10s, noeviction, AOF on\n")
	if says := doctorSays(t, exitOK, own).Masters[0]; says.Clients != nil || says.Snapshots != "" {
		t.Errorf("as JSON with the rights of a client: %+v", says)
	}
}

func TestEveryHelpFitsAScreen(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"status", "--help"}, {"break", "--help"}, {"doctor", "--help"}, {"demo", "--help"}, {"completion", "--help"}} {
		out, _ := runCommandLine(t, exitOK, "", args...)
		t.Run(strings.Join(args, " "), func(t *testing.T) { wantNarrow(t, out) })
	}
}
