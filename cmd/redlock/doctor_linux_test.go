package main

import (
	"crypto/tls"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

func TestDoctorConnectsByTLSAndSaysWhyItFails(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil) // for its certificate, which is for loopback
	web.Close()
	s := miniredis.NewMiniRedis()
	s.RequireAuth("s3kret")
	if err := s.StartTLS(&tls.Config{Certificates: web.TLS.Certificates}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	masters := "rediss://:s3kret@" + s.Addr()
	wantRow(t, runDoctor(t, exitNoQuorum, masters), s.Addr(), "no", "-", "not reachable: its certificate is signed by an unknown authority")
	asked := strings.Replace(masters, "rediss", "redis", 1)
	wantRow(t, runDoctor(t, exitNoQuorum, asked), s.Addr(), "no", "-", "not reachable: it speaks TLS only")

	roots := filepath.Join(t.TempDir(), "roots.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	if err := os.WriteFile(roots, text, 0o600); err != nil {
		t.Fatal(err)
	}
	// In a process of its own: the system's roots are read once in each.
	cmd := exec.Command(os.Args[0], "doctor", "--adopt", "--single")
	cmd.Env = append(runEnv(masters), "SSL_CERT_FILE="+roots)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	wantRow(t, string(out), s.Addr(), "yes", "unknown", "adopted ")
}
