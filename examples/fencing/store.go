package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// A store keeps values in a file, each with the highest fence that it has seen for the
// value's key. It refuses requests with a lower fence. It is served over HTTP:
//
//	PUT /<key>, Fence: 7   writes; refused if the store has seen a higher fence than 7
//	GET /<key>, Fence: 7   reads, for the holder of the lock; refused in the same way
//	GET /<key>             reads, for everybody else; changes nothing
//
// A holder's read raises the fence, as a write does. The holder's next write depends on what
// it has read, so no earlier holder may write after that read.
//
// Each change writes the whole file, so the file should be small. Only one process may use it.
type store struct {
	path string     // immutable
	mu   sync.Mutex // guards the file; held from reading a fence until the file is replaced
}

// A record is a value and the highest fence that the store has seen for it. They are written
// together: a value that has lost its fence could be overwritten by anybody.
type record struct {
	Value []byte
	Fence uint64
}

// A refusal is an error of the caller.
type refusal struct {
	status int
	text   string // one line
}

func (r *refusal) Error() string { return r.text }

const mostBytes = 64 << 10 // of a value

var names = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// openStore returns the store in the file at path. It creates the file if there is none. If the
// file is lost later, every request fails: a store that has lost its fences must not start again
// with none.
func openStore(path string) (*store, error) {
	s := &store{path: path}
	_, err := s.load()
	if errors.Is(err, os.ErrNotExist) {
		err = s.save(map[string]record{})
	}
	return s, err
}

// access reads or writes a key for a holder with a fence, which is the text of the header. It
// only reads if value is nil.
func (s *store) access(key, fence string, value []byte) (record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.load()
	if err != nil {
		return record{}, err
	}
	r := all[key]
	switch n, err := strconv.ParseUint(fence, 10, 64); {
	case err != nil || n == 0:
		return r, &refusal{http.StatusBadRequest, fmt.Sprintf("%.24q is no fence; the highest for %s is %d", fence, key, r.Fence)}
	case n < r.Fence:
		return r, &refusal{http.StatusConflict, fmt.Sprintf("fence %d is below %d, the highest for %s", n, r.Fence, key)}
	case n == r.Fence && value == nil:
		return r, nil
	default: // an equal fence comes from the same holder, who may write again
		r.Fence = n
	}
	if value != nil {
		r.Value = value
	}
	all[key] = r
	return r, s.save(all)
}

// peek returns the record of a key, or an empty one if the key was never written. It takes the
// mutex so that the record is on the disk when peek returns.
func (s *store) peek(key string) (record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.load()
	return all[key], err
}

// load reads the file. The caller holds the mutex. The store keeps no copy in memory, which
// could differ from the file after a failure.
func (s *store) load() (all map[string]record, err error) {
	text, err := os.ReadFile(s.path)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}

// save replaces the file. The caller holds the mutex. After a crash there is either the old file
// or the new one; if save has returned nil, it is the new one.
func (s *store) save(all map[string]record) error {
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	unfinished := s.path + ".new"
	f, err := os.OpenFile(unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	// Without the Sync, the name could reach the disk before the text.
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(unfinished, s.path); err != nil || runtime.GOOS == "windows" { // which cannot sync directories
		return err
	}
	dir, err := os.Open(filepath.Dir(s.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// ServeHTTP implements http.Handler. It does not hold the mutex while it waits for a client.
func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/")
	fences := r.Header.Values("Fence")
	var value []byte // stays nil for a GET
	var err error
	switch {
	case !names.MatchString(key):
		err = &refusal{http.StatusNotFound, "keys are 1 to 64 of A-Z a-z 0-9 _ -"}
	case r.Method == http.MethodPut:
		if value, err = io.ReadAll(http.MaxBytesReader(w, r.Body, mostBytes)); err != nil {
			err = &refusal{http.StatusRequestEntityTooLarge, err.Error()} // if the body was cut off, nobody reads the answer
		}
	case r.Method != http.MethodGet:
		err = &refusal{http.StatusMethodNotAllowed, "GET or PUT"}
	}
	var rec record
	if err == nil && value == nil && len(fences) == 0 {
		rec, err = s.peek(key)
	} else if err == nil {
		rec, err = s.access(key, strings.Join(fences, ", "), value) // several fences are not valid
	}
	var refused *refusal
	if errors.As(err, &refused) {
		http.Error(w, refused.text, refused.status)
		return
	} else if err != nil {
		log.Print("store: ", err)
		http.Error(w, "the store has failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Fence", strconv.FormatUint(rec.Fence, 10))
	w.Header().Set("Cache-Control", "no-store")
	if value == nil {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write(rec.Value)
	}
}
