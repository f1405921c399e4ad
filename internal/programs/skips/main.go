// Command skips reads the events of go test -json, prints one line for each package and the output of what failed, and says at
// the end how many tests were skipped, and for want of what:
//
//	go test -json ./... | go run ./internal/programs/skips
//
// Its exit status is 1 if a test or a package has failed, or if none has passed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	ok, err := report(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// An event is one line of go test -json: see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of a package that does not build
	Elapsed                       float64
}

// wanted finds what package programs says of a missing program.
var wanted = regexp.MustCompile(`for want of ([^:\n]+): install (.+) to run this test`)

// report prints what the events say, and reports whether tests have passed and none has failed.
func report(events io.Reader, w io.Writer) (ok bool, err error) {
	var passed, failed, skipped int
	reasons := make(map[string]int) // how many tests were skipped, by reason
	output := make(map[[2]string]*strings.Builder)
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return false, fmt.Errorf("%w: %s", err, lines.Text())
		}
		test := [2]string{e.Package + e.ImportPath, e.Test}
		if output[test] == nil {
			output[test] = new(strings.Builder)
		}
		switch e.Action {
		case "output", "build-output":
			output[test].WriteString(e.Output)
			continue
		case "fail", "build-fail":
			failed++
			fmt.Fprintf(w, "%sFAIL\t%s\n", output[test], strings.TrimSpace(strings.Join(test[:], " ")))
		case "pass":
			if e.Test != "" {
				passed++
			} else {
				fmt.Fprintf(w, "ok  \t%s\t%.3fs\n", e.Package, e.Elapsed)
			}
		case "skip":
			if e.Test != "" { // else the package has no tests
				skipped++
				reasons[reason(output[test].String())]++
			}
		default:
			continue
		}
		delete(output, test)
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(w, "%6d skipped %s\n", reasons[why], why)
	}
	return failed == 0 && passed > 0, lines.Err()
}

// reason returns why a test was skipped, from its output.
func reason(output string) string {
	if m := wanted.FindStringSubmatch(output); m != nil {
		return fmt.Sprintf("for want of %s: install %s", m[1], m[2])
	}
	return "for another reason"
}
