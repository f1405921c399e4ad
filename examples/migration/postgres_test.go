package migration

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// A postgres stands for a server with advisory locks, as its documentation describes them: a lock belongs to a session, and ends with
// it. With pooled, it is behind a pooler in transaction mode, which runs each statement in any session.
type postgres struct {
	pooled bool

	mu       sync.Mutex // guards what follows
	sessions int
	owner    map[string]int // sessions, by lock
}

// A session is a connection to a postgres.
type session struct {
	db *postgres
	id int
}

func (p *postgres) Connect(context.Context) (driver.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions++
	return &session{p, p.sessions}, nil
}

func (p *postgres) Driver() driver.Driver { return nil }

func (s *session) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }
func (s *session) Begin() (driver.Tx, error)           { return nil, driver.ErrSkip }

func (s *session) Close() error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	for name, id := range s.db.owner {
		if id == s.id {
			delete(s.db.owner, name)
		}
	}
	return nil
}

func (s *session) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	p := s.db
	p.mu.Lock()
	defer p.mu.Unlock()
	id, name := s.id, args[0].Value.(string)
	if p.pooled {
		p.sessions++
		id = p.sessions
	}
	switch owner := p.owner[name]; {
	case strings.Contains(query, "pg_advisory_lock(") && owner == 0:
		p.owner[name] = id
	case strings.Contains(query, "pg_advisory_lock(") && owner != id:
		return nil, fmt.Errorf("session %d would wait for session %d", id, owner)
	case strings.Contains(query, "pg_advisory_unlock(") && owner == id:
		delete(p.owner, name)
	}
	return driver.RowsAffected(1), nil
}

// TestAnAdvisoryLockBehindAPoolerIsNotReleased is what the document warns of.
func TestAnAdvisoryLockBehindAPoolerIsNotReleased(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		p := &postgres{pooled: pooled, owner: map[string]int{}}
		db := sql.OpenDB(p)
		defer db.Close()
		if err := reportWithPostgres(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		if stays := len(p.owner) == 1; stays != pooled {
			t.Errorf("with a pooler %v, the lock stays: %v", pooled, stays)
		}
		if err := reportWithPostgres(t.Context(), db); (err != nil) != pooled {
			t.Errorf("with a pooler %v, the next report: %v", pooled, err)
		}
	}
}
