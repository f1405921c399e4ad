package reasons_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/reasons"
)

func TestKindIsEqualForErrorsWithOneCause(t *testing.T) {
	down := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	later := time.Now().Add(time.Minute)
	for _, c := range []struct {
		name string
		errs []error
		want string
	}{
		{"no master at fault", nil, ""},
		{"an outage", []error{down, io.EOF, fmt.Errorf("connection 3: %w", io.ErrUnexpectedEOF), &quorum.LateError{Timeout: time.Second}}, "down"},
		{"a restart", []error{&guard.QuarantineError{Until: later, Why: "new"}, &guard.QuarantineError{Why: "restarted"}}, "in quarantine"},
		{"digits", []error{errors.New("it took 5ms"), errors.New("it took 17ms")}, "it took ms"},
		{"several", []error{errors.New("OOM"), down, errors.New("LOADING")}, "LOADING; OOM; down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := reasons.Kind(c.errs...); got != c.want {
				t.Errorf("Kind(%v) = %q, want %q", c.errs, got, c.want)
			}
		})
	}
}

func TestTextNamesMastersWithOneReasonTogether(t *testing.T) {
	refused := func(port int) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{Port: port}, Err: errors.New("connection refused")}
	}
	for _, c := range []struct {
		name     string
		failures []reasons.Failure
		want     string
	}{
		{"no failure", nil, ""},
		{"network errors of two addresses", []reasons.Failure{{"a", refused(1)}, {"b", errors.New("OOM")}, {"c", refused(2)}}, "a, c: connection refused; b: OOM"},
		{"late answers", []reasons.Failure{{"a", &quorum.LateError{Timeout: time.Second}}, {"b", &quorum.LateError{Timeout: time.Second, RTT: 3 * time.Second}}},
			"a, b: " + (&quorum.LateError{Timeout: time.Second, RTT: 3 * time.Second}).Error()},
		{"quarantines", []reasons.Failure{{"a", &guard.QuarantineError{Why: "new"}}, {"b", &guard.QuarantineError{Why: "new", Until: time.Unix(99, 0)}}, {"c", &guard.QuarantineError{Why: "restarted"}}},
			"a, b: " + (&guard.QuarantineError{Why: "new", Until: time.Unix(99, 0)}).Error() + "; c: " + (&guard.QuarantineError{Why: "restarted"}).Error()},
		{"an error of no master", []reasons.Failure{{"", errors.New("x")}, {"a", errors.New("x")}, {"", errors.New("x")}}, "x; a: x; x"},
		{"control characters", []reasons.Failure{{"a", errors.New("x\ny")}}, "a: " + reasons.OneLine(errors.New("x\ny"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := reasons.Text(c.failures); got != c.want {
				t.Errorf("Text(%v) = %q, want %q", c.failures, got, c.want)
			}
		})
	}
}

func TestNamesCountsThoseThatItLeavesOut(t *testing.T) {
	ten := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	for _, c := range []struct {
		names []string
		count int
		want  string
	}{
		{ten[:2], 2, "0, 1"},
		{ten[:2], 5, "0, 1 and 3 more"},
		{ten, 10, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"},
		{append(ten, "10"), 11, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 1 more"},
	} {
		if got := reasons.Names(c.names, c.count); got != c.want {
			t.Errorf("Names(%v, %d) = %q, want %q", c.names, c.count, got, c.want)
		}
	}
}
