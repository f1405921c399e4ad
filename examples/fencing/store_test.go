package main

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// reopen opens the store of a file once more.
func reopen(t *testing.T, path string) *store {
	t.Helper()
	s, err := openStore(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newStore returns a store whose key "account" has the value "old" and the fence 100.
func newStore(t *testing.T) *store {
	t.Helper()
	s := reopen(t, filepath.Join(t.TempDir(), "store"))
	want(t, s, reply{200, "100", ""}, "PUT", "/account", "old", "100")
	return s
}

// A reply is what a store answers.
type reply struct {
	status      int
	fence, body string
}

// ask asks a store, with a header for each fence.
func ask(s http.Handler, method, path, body string, fences ...string) reply {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, f := range fences {
		r.Header.Add("Fence", f)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return reply{w.Code, w.Header().Get("Fence"), w.Body.String()}
}

// want asks a store, and fails the test if the answer differs.
func want(t *testing.T, s http.Handler, want reply, method, path, body string, fences ...string) {
	t.Helper()
	if got := ask(s, method, path, body, fences...); got != want {
		t.Errorf("%s %s %.20q with Fence %.20q = %+v, want %+v", method, path, body, fences, got, want)
	}
}

func TestTheStoreRefusesAllButTheHighestFence(t *testing.T) {
	const low, none = ", the highest for account\n", " is no fence; the highest for account is 100\n"
	for _, row := range []struct {
		name    string
		fences  []string
		refused reply // zero: it is accepted
	}{
		{"higher", []string{"101"}, reply{}},
		{"higher, lower as text", []string{"1000"}, reply{}},
		{"the highest there is", []string{"18446744073709551615"}, reply{}},
		{"equal", []string{"100"}, reply{}},
		{"lower by one", []string{"99"}, reply{409, "", "fence 99 is below 100" + low}},
		{"lower, higher as text", []string{"20"}, reply{409, "", "fence 20 is below 100" + low}},
		{"the lowest", []string{"1"}, reply{409, "", "fence 1 is below 100" + low}},
		{"zero", []string{"0"}, reply{400, "", `"0"` + none}},
		{"zeros", []string{"000"}, reply{400, "", `"000"` + none}},
		{"absent", nil, reply{400, "", `""` + none}},
		{"empty", []string{""}, reply{400, "", `""` + none}},
		{"negative", []string{"-101"}, reply{400, "", `"-101"` + none}},
		{"with a sign", []string{"+101"}, reply{400, "", `"+101"` + none}},
		{"a fraction", []string{"101.5"}, reply{400, "", `"101.5"` + none}},
		{"with an exponent", []string{"1e9"}, reply{400, "", `"1e9"` + none}},
		{"hexadecimal", []string{"0x101"}, reply{400, "", `"0x101"` + none}},
		{"and more", []string{"101 or so"}, reply{400, "", `"101 or so"` + none}},
		{"two lines", []string{"101\n102"}, reply{400, "", `"101\n102"` + none}},
		{"too high", []string{"18446744073709551616"}, reply{400, "", `"18446744073709551616"` + none}},
		{"too long", []string{strings.Repeat("x", 9999)}, reply{400, "", `"xxxxxxxxxxxxxxxxxxxxxxxx"` + none}},
		{"two", []string{"101", "101"}, reply{400, "", `"101, 101"` + none}},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, method := range []string{"PUT", "GET"} {
				if method == "GET" && row.fences == nil {
					continue // anybody may look
				}
				s := newStore(t)
				answer, after := row.refused, reply{200, "100", "old"}
				if answer == (reply{}) {
					answer = reply{200, row.fences[0], map[string]string{"GET": "old"}[method]}
					after = reply{200, row.fences[0], map[string]string{"GET": "old", "PUT": "new"}[method]}
				}
				want(t, s, answer, method, "/account", "new", row.fences...)
				want(t, s, after, "GET", "/account", "")
				want(t, reopen(t, s.path), after, "GET", "/account", "")
			}
		})
	}
}

// A holder reads a value, computes a new one and writes it. If an earlier holder could write
// between the two, its update would be lost.
func TestAnEarlierHolderCannotWriteAfterALaterOneHasRead(t *testing.T) {
	s := newStore(t)
	want(t, s, reply{200, "102", "old"}, "GET", "/account", "", "102")
	want(t, s, reply{409, "", "fence 101 is below 102, the highest for account\n"}, "PUT", "/account", "late", "101")
	want(t, s, reply{200, "102", ""}, "PUT", "/account", "new", "102")
	want(t, s, reply{200, "102", "new"}, "GET", "/account", "")
}

func TestAReadWithoutAFenceDoesNotRefuseAnybody(t *testing.T) {
	s := newStore(t)
	want(t, s, reply{200, "100", "old"}, "GET", "/account", "")
	want(t, s, reply{200, "100", ""}, "PUT", "/account", "new", "100")
}

func TestEachKeyHasItsOwnFence(t *testing.T) {
	s := newStore(t)
	want(t, s, reply{200, "0", ""}, "GET", "/stock", "")
	want(t, s, reply{200, "5", ""}, "PUT", "/stock", "s", "5")
	want(t, s, reply{200, "5", "s"}, "GET", "/stock", "")
	want(t, s, reply{200, "100", "old"}, "GET", "/account", "")
}

func TestAStoreRemembersWhenItIsOpenedAgain(t *testing.T) {
	path := newStore(t).path
	want(t, reopen(t, path), reply{409, "", "fence 99 is below 100, the highest for account\n"}, "PUT", "/account", "late", "99")
	want(t, reopen(t, path), reply{200, "100", "old"}, "GET", "/account", "")
	want(t, reopen(t, path), reply{200, "101", "old"}, "GET", "/account", "", "101") // a read counts
	want(t, reopen(t, path), reply{409, "", "fence 100 is below 101, the highest for account\n"}, "PUT", "/account", "late", "100")
	want(t, reopen(t, path), reply{200, "101", ""}, "PUT", "/account", "new", "101")
	want(t, reopen(t, path), reply{200, "101", "new"}, "GET", "/account", "")
}

func TestValuesAreAnyBytes(t *testing.T) {
	s := newStore(t)
	for _, value := range []string{"", "\x00\xff\n", strings.Repeat("\xf0", mostBytes)} {
		want(t, s, reply{200, "100", ""}, "PUT", "/account", value, "100")
		want(t, reopen(t, s.path), reply{200, "100", value}, "GET", "/account", "")
	}
}

func TestTheStoreRefusesInvalidRequests(t *testing.T) {
	long := strings.Repeat("k", 65)
	for _, row := range []struct {
		name, method, path, body string
		want                     int
	}{
		{"too large", "PUT", "/account", strings.Repeat("x", mostBytes+1), 413},
		{"no key", "PUT", "/", "x", 404},
		{"a directory", "PUT", "/a/b", "x", 404},
		{"a directory, escaped", "PUT", "/a%2Fb", "x", 404},
		{"a way out", "PUT", "/../account", "x", 404},
		{"a way out, escaped", "PUT", "/%2e%2e%2faccount", "x", 404},
		{"dots", "PUT", "/..", "x", 404},
		{"a line", "PUT", "/account%0a", "x", 404},
		{"a long key", "PUT", "/" + long, "x", 404},
		{"a look at a long key", "GET", "/" + long, "", 404},
		{"another method", "DELETE", "/account", "", 405},
		{"a write by another method", "POST", "/account", "x", 405},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newStore(t)
			before, err := os.ReadFile(s.path)
			if err != nil {
				t.Fatal(err)
			}
			got := ask(s, row.method, row.path, row.body, "101")
			if got.status != row.want || strings.Count(got.body, "\n") != 1 {
				t.Errorf("%s %.20s = %+v, want %d and a line", row.method, row.path, got, row.want)
			}
			if after, err := os.ReadFile(s.path); err != nil || string(after) != string(before) {
				t.Errorf("the file is %s (%v), want it as before, %s", after, err, before)
			}
		})
	}
}

func TestAValueThatWasCutOffIsNotWritten(t *testing.T) {
	s := newStore(t)
	r := httptest.NewRequest("PUT", "/account", half{})
	r.Header.Set("Fence", "101")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code == http.StatusOK {
		t.Error("half a value was accepted")
	}
	want(t, s, reply{200, "100", "old"}, "GET", "/account", "")
}

// half is a body that is cut off.
type half struct{}

func (half) Read(p []byte) (int, error) { return copy(p, "ne"), errors.New("cut off") }

func TestAWriteThatFailsChangesNothing(t *testing.T) {
	s := newStore(t)
	obstacle := s.path + ".new"
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	failed := reply{500, "", "the store has failed\n"}
	want(t, s, failed, "PUT", "/account", "new", "102")
	want(t, s, failed, "GET", "/account", "", "102")
	want(t, s, reply{200, "100", "old"}, "GET", "/account", "")
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	want(t, s, reply{200, "101", ""}, "PUT", "/account", "new", "101")
}

func TestAStoreWithoutItsFencesAcceptsNothing(t *testing.T) {
	for _, row := range []struct {
		name string
		lose func(path string) error
	}{
		{"no file", os.Remove},
		{"an empty file", func(path string) error { return os.Truncate(path, 0) }},
		{"half a file", func(path string) error { return os.Truncate(path, 20) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newStore(t)
			if err := row.lose(s.path); err != nil {
				t.Fatal(err)
			}
			want(t, s, reply{500, "", "the store has failed\n"}, "PUT", "/account", "late", "1")
			if _, err := openStore(s.path); err == nil && row.name != "no file" {
				t.Error("openStore = nil, want an error")
			}
		})
	}
}

// After a write was accepted, the store has its value or that of a later holder.
func TestConcurrentWritersDoNotUndoEachOther(t *testing.T) {
	const writers, writes = 8, 20
	s := newStore(t)
	server := httptest.NewServer(s)
	defer server.Close()
	fences := rand.Perm(writers * writes) // lower ones are to come behind higher ones
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for _, n := range fences[i*writes:][:writes] {
				r := resource{url: server.URL + "/account", fence: uint64(101 + n)}
				if r.write(t.Context(), 101+n) != nil {
					continue // it came too late
				}
				got := ask(s, "GET", "/account", "")
				if seen, err := strconv.ParseUint(got.fence, 10, 64); err != nil || seen < r.fence || got.body != got.fence {
					t.Errorf("after a write with fence %d there is %+v", r.fence, got)
				}
			}
		})
	}
	wg.Wait()
	highest := strconv.Itoa(100 + writers*writes)
	want(t, s, reply{200, highest, highest}, "GET", "/account", "")
	want(t, reopen(t, s.path), reply{200, highest, highest}, "GET", "/account", "")
}
