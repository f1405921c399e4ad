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

// A store keeps values in a file, each with the highest fence that has come for it,
// and refuses whoever comes with a lower one. It is served over HTTP:
//
//	PUT /<key>, Fence: 7   writes; refused if a higher fence than 7 has come
//	GET /<key>, Fence: 7   reads, for the holder of the lock; refused likewise
//	GET /<key>             looks, and counts for nothing
//
// A holder's read raises the fence as a write does. What the holder will write depends
// on what it has read: once it has read, nobody before it may write any more.
//
// The whole file is written anew for each change, so keep it small; and it belongs
// to one process.
type store struct {
	path string     // immutable
	mu   sync.Mutex // guards the file, from the look at a fence until it is replaced
}

// A record is a value and the highest fence that has come for it, in one piece: a value
// whose fence was forgotten is one that anybody may overwrite.
type record struct {
	Value []byte
	Fence uint64
}

// A refusal is an answer that is the caller's fault.
type refusal struct {
	status int
	text   string // one line
}

func (r *refusal) Error() string { return r.text }

const mostBytes = 64 << 10 // of a value

var names = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// openStore returns the store in the file at path, which is made if there is none. From
// then on it must be there: a store that has lost its fences must not begin again.
func openStore(path string) (*store, error) {
	s := &store{path: path}
	_, err := s.load()
	if errors.Is(err, os.ErrNotExist) {
		err = s.save(map[string]record{})
	}
	return s, err
}

// enter is what a holder does to a key: it writes value, or only reads if that is nil.
// fence is the header's text.
func (s *store) enter(key, fence string, value []byte) (record, error) {
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
	default: // an equal one is the same holder, who may write again
		r.Fence = n
	}
	if value != nil {
		r.Value = value
	}
	all[key] = r
	return r, s.save(all)
}

// look returns a key's record; one that was never written is empty. What it returns is
// on the disk: that is what it has the mutex for.
func (s *store) look(key string) (record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.load()
	return all[key], err
}

// load reads the file; the caller has the mutex. Nothing is kept in memory that could
// disagree with it, whatever failed before.
func (s *store) load() (all map[string]record, err error) {
	text, err := os.ReadFile(s.path)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}

// save replaces the file; the caller has the mutex. After a crash at any moment there is
// the old file or the new one, and once it has returned nil, the new one.
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
	if err := os.Rename(unfinished, s.path); err != nil || runtime.GOOS == "windows" { // it cannot sync directories
		return err
	}
	dir, err := os.Open(filepath.Dir(s.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// ServeHTTP implements http.Handler. The mutex is not held while it waits for a client.
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
			err = &refusal{http.StatusRequestEntityTooLarge, err.Error()} // or it was cut off, and nobody reads this
		}
	case r.Method != http.MethodGet:
		err = &refusal{http.StatusMethodNotAllowed, "GET or PUT"}
	}
	var rec record
	if err == nil && value == nil && len(fences) == 0 {
		rec, err = s.look(key)
	} else if err == nil {
		rec, err = s.enter(key, strings.Join(fences, ", "), value) // several are none
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
