package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// atTerminal runs a command line whose standard error is a terminal, and interrupts it when the terminal shows text. It returns all that the
// terminal shows.
func atTerminal(t *testing.T, text string, args ...string) string {
	t.Helper()
	file, end := newTerminal(t)
	size := struct{ rows, columns, x, y uint16 }{rows: 24, columns: 100}
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size))); e != 0 {
		t.Fatal(e)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	s, read := &console{t: t, file: file}, make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 1024)
		for {
			n, err := s.file.Read(buf)
			if s.seen += string(buf[:n]); strings.Contains(s.seen, text) {
				cancel()
			}
			if err != nil || strings.Contains(s.seen, "\x04") {
				return
			}
		}
	}()
	run(ctx, append([]string{"redlock"}, args...), strings.NewReader(""), new(bytes.Buffer), end)
	end.WriteString("\x04")
	<-read
	end.Close()
	return strings.TrimSuffix(s.seen, "\x04")
}

// TestCommandsThatWaitShowHowLongOnATerminal checks that a line is shown, and removed before anything else is written.
func TestCommandsThatWaitShowHowLongOnATerminal(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 1)
	holder := openQuietly(t, masters, redlock.Options{Owner: "web-1"})
	l := holder.Locker("stock")
	if err := l.LockContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			time.AfterFunc(3*time.Second, func() { conn.Close() })
		}
	}()
	servers := listOf(redisserver.AdoptedTB(t, 3))
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"run", ` to go; "stock" is held by web-1`, []string{"run", "--masters", masters, "--wait", "40s", "stock", "--", os.Args[0]}},
		{"doctor", " passed; examined 0 of 1 master", []string{"doctor", "--masters", silent.Addr().String()}},
		{"demo", " passed; with the lock: added ", []string{"demo"}},
		{"verify", " to go; ", []string{"verify", "--masters", servers, "--for", "30s", "--history", t.TempDir() + "/h.jsonl"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := atTerminal(t, tt.want, tt.args...)
			if !strings.Contains(seen, tt.want) {
				t.Errorf("the terminal shows\n%q\nwant %q", seen, tt.want)
			}
			shown := strings.Split(strings.ReplaceAll(seen, "\r\n", "\r\x1b[K"), "\r\x1b[K") // the line at different times, and other lines
			for _, line := range shown {
				if strings.Contains(line, " passed") && (strings.Contains(line, "time=") || strings.Contains(line, "redlock: ")) {
					t.Errorf("another line is mixed into the progress: %q", line)
				}
			}
			if last := shown[len(shown)-1]; last != "" {
				t.Errorf("at the end, the terminal shows %q, want that the line is removed", last)
			}
		})
	}
	t.Run("run --quiet", func(t *testing.T) {
		if seen := atTerminal(t, "never", "run", "--quiet", "--masters", masters, "--wait", "1500ms", "stock", "--", os.Args[0]); strings.Contains(seen, " passed") { // on a busy machine, there may be warnings
			t.Errorf("the terminal shows %q, want no progress", seen)
		}
	})
}
