package interop

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/wiredoc"
)

// TestTheWireDocumentHoldsOnValkey runs the examples of docs/wire.md on Valkey 9, which is
// compiled to WebAssembly and runs in Node.
func TestTheWireDocumentHoldsOnValkey(t *testing.T) {
	document, err := os.ReadFile("../../docs/wire.md")
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
func startValkey(t *testing.T) string {
	t.Helper()
	node := needNode(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	var output strings.Builder
	cmd := exec.Command(node, "valkey.mjs", strconv.Itoa(free.Addr().(*net.TCPAddr).Port))
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
