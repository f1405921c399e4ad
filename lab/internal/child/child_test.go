package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main("child", echo, func() error { os.Exit(m.Run()); return nil }) }

// echo answers each order by the order. It ends by itself after "end", and does not answer "sleep".
func echo(string) error {
	orders, answer := Serve[string, string]()
	for o := range orders {
		switch o {
		case "end":
			return nil
		case "sleep":
			select {}
		case "fail":
			answer("", errors.New("failed"))
		default:
			answer(o, nil)
		}
	}
	return nil
}

func start(t *testing.T) *Worker[string, string] {
	t.Helper()
	w, err := StartWorker[string, string]("", "echo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { End(w) })
	return w
}

func TestAWorkerAnswersEachOrder(t *testing.T) {
	w := start(t)
	for _, row := range []struct{ order, want string }{{"one", "one <nil>"}, {"fail", " failed"}, {"two", "two <nil>"}, {"end", " a worker has ended by itself"}} {
		got, err := w.Ask(row.order, time.Minute)
		if got := fmt.Sprint(got, " ", err); got != row.want {
			t.Errorf("the answer to %q is %q, want %q", row.order, got, row.want)
		}
	}
	if <-w.Gone; w.Err != nil {
		t.Errorf("the worker has ended: %v", w.Err)
	}
}

func TestAWorkerThatIsSilentEndsWithItsInput(t *testing.T) {
	w := start(t)
	if _, err := w.Ask("sleep", time.Millisecond); err != ErrSilent {
		t.Errorf("no answer is %v, want %v", err, ErrSilent)
	}
	if End(w); w.Err != nil {
		t.Errorf("the worker has ended: %v", w.Err)
	}
}

func TestAProgramThatDoesNotExistIsNotStarted(t *testing.T) {
	if _, err := Start("/nowhere", os.Stderr, func(io.Reader) {}); err == nil {
		t.Error("a program that does not exist was started")
	}
}
