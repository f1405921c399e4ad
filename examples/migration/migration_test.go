package migration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/redlock-go/redlock"
)

var codeBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestTheDocumentQuotesThisCode holds the code in docs/migration.md to the code that compiles here.
func TestTheDocumentQuotesThisCode(t *testing.T) {
	document, err := os.ReadFile("../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	blocks := codeBlock.FindAllStringSubmatch(string(document), -1)
	if len(blocks) < 8 {
		t.Errorf("the document has %d blocks of code, want 8 at least", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(code.String(), b[1]) {
			t.Errorf("this is in the document and not here:\n%s", b[1])
		}
	}
}

var scriptBlock = regexp.MustCompile("(?s)```js\n(.*?)```")

// TestTheDocumentQuotesTheProgramInNode holds its code to the program that runs beside redlock.
func TestTheDocumentQuotesTheProgramInNode(t *testing.T) {
	document, err := os.ReadFile("../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("../../lab/interop/counter.mjs")
	if err != nil {
		t.Fatal(err)
	}
	blocks := scriptBlock.FindAllStringSubmatch(string(document), -1)
	if len(blocks) != 1 || !strings.Contains(string(program), blocks[0][1]) {
		t.Errorf("%d blocks, want one that is a part of counter.mjs", len(blocks))
	}
}

func TestOptionsOfOtherClientsBecomeURLs(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireUserAuth("shop", "p@ss:w/rd#1%")
	for name, urls := range map[string][]string{
		"go-redis": {fromGoRedis(&redis.Options{Addr: server.Addr(), Username: "shop", Password: "p@ss:w/rd#1%", DB: 2})},
		"rueidis":  fromRueidis(rueidis.ClientOption{InitAddress: []string{server.Addr()}, Username: "shop", Password: "p@ss:w/rd#1%", SelectDB: 2}),
	} {
		t.Run(name, func(t *testing.T) {
			client, err := redlock.Open(urls, &redlock.Options{DisableRestartGuard: true, NodeTimeout: 4 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			lock := client.Locker("a")
			if err := lock.LockContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !server.DB(2).Exists("a") {
				t.Error("the lock is not in database 2")
			}
			if err := lock.UnlockContext(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestASocketBecomesAURL(t *testing.T) {
	const want = "unix:///run/redis.sock?db=1"
	if got := fromGoRedis(&redis.Options{Network: "unix", Addr: "/run/redis.sock", DB: 1}); got != want {
		t.Errorf("fromGoRedis = %q, want %q", got, want)
	}
}
