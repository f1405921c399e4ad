package child

import (
	"io"
	"os"
	"testing"
)

const echoes = "REDLOCK_LAB_CHILD_ECHOES"

func TestMain(m *testing.M) {
	if os.Getenv(echoes) != "" {
		io.Copy(os.Stdout, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestAWorkerIsThisProgramAndEndsWithItsInput(t *testing.T) {
	w, err := Start("", os.Stderr, echoes+"=1")
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(w.In, "order")
	w.In.Close()
	if got, err := io.ReadAll(w.Out); string(got) != "order" || err != nil {
		t.Errorf("answer: %q, %v", got, err)
	}
	if err := w.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := Start("/nowhere", os.Stderr); err == nil {
		t.Error("a program that does not exist was started")
	}
}
