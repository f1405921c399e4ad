package interop

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/programs"
	"github.com/redlock-go/redlock/internal/wiredoc"
)

// TestTheWireDocumentHoldsOnValkey runs the examples of docs/protocol.md on Valkey 9, which is
// compiled to WebAssembly and runs in Node.
func TestTheWireDocumentHoldsOnValkey(t *testing.T) {
	document, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	addr := startValkey(t)
	r := wiredoc.Runner{
		Root:     "../..",
		Dial:     func() (redis.Conn, error) { return redis.Dial("tcp", addr, redis.DialConnectTimeout(5*time.Second)) },
		Patience: 30 * time.Second,
	}
	commands, err := r.Run(string(document))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d commands had the answers that the document says", commands)
}

// startValkey starts a server and returns its address.
func startValkey(t testing.TB) string {
	t.Helper()
	needNode(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	var output strings.Builder
	cmd := programs.Command(t, "node", "valkey.mjs", strconv.Itoa(free.Addr().(*net.TCPAddr).Port))
	cmd.Stdout, cmd.Stderr = &output, &output
	stdin, err := cmd.StdinPipe() // the process ends with it, also if the test is killed
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("the server's output:\n%s", &output)
		}
	})
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
		conn, err := redis.Dial("tcp", addr, redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(5*time.Second))
		if err != nil {
			continue
		}
		info, err := redis.String(conn.Do("INFO", "server"))
		conn.Close()
		if err == nil {
			if !strings.Contains(info, "server_name:valkey") {
				t.Fatalf("the server is not Valkey: %s", info)
			}
			return addr
		}
	}
	t.Fatal("Valkey has not answered within a minute")
	return ""
}

// TestDoctorAndVerifyOnValkey runs the command on three servers: doctor misses nothing, and the record of clients with faults shows no
// violation.
func TestDoctorAndVerifyOnValkey(t *testing.T) {
	command := filepath.Join(t.TempDir(), "redlock")
	build := programs.Command(t, "go", "build", "-o", command, "./cmd/redlock")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	masters := strings.Join([]string{startValkey(t), startValkey(t), startValkey(t)}, ",")
	redlock := func(args ...string) []byte {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := programs.CommandContext(ctx, t, command, args...)
		cmd.Env = append(os.Environ(), "REDLOCK_MASTERS="+masters)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("redlock %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	var found struct {
		Able    bool
		Masters []struct {
			Votes  bool
			Server string
			Why    []string
		}
	}
	if err := json.Unmarshal(redlock("doctor", "--adopt", "--json"), &found); err != nil {
		t.Fatal(err)
	}
	if !found.Able || len(found.Masters) != 3 {
		t.Errorf("doctor has found %+v, want three masters that can vote", found)
	}
	for _, m := range found.Masters {
		if !m.Votes || !strings.HasPrefix(m.Server, "valkey 9.") || len(m.Why) != 1 || !strings.HasPrefix(m.Why[0], "adopted ") {
			t.Errorf("doctor has found %+v, want a vote of Valkey 9 and nothing that is missing", m)
		}
	}
	t.Logf("%s", redlock("verify", "--for", "2s", "--history", filepath.Join(t.TempDir(), "history.jsonl")))
}
