package incarnation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/farexpiry"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// A server is one on which the script is tried.
type server struct {
	conn redis.Conn
	run  string // the run_id that it reports, or Unknown
}

// servers returns an embedded server, which reports no run_id, and a real one.
func servers(t *testing.T) map[string]server {
	t.Helper()
	embedded := miniredis.RunT(t)
	farexpiry.Help(embedded)
	real := redisserver.StartTB(t, 1)[0]
	all := make(map[string]server)
	for name, addr := range map[string]string{"embedded": embedded.Addr(), "real": real.Addr()} {
		conn, err := redis.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		all[name] = server{conn, incarnation.Unknown}
	}
	info, err := redis.String(all["real"].conn.Do("INFO", "server"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "run_id:")
	all["real"] = server{all["real"].conn, rest[:40]}
	return all
}

// look inspects the record, as a client does.
func look(t *testing.T, conn redis.Conn, database string, known *incarnation.Known, stale bool) incarnation.Inspection {
	t.Helper()
	return declare(t, conn, database, known, stale, 0)
}

// declare inspects the record, as a client with a MaxTTL does.
func declare(t *testing.T, conn redis.Conn, database string, known *incarnation.Known, stale bool, maxTTL time.Duration) incarnation.Inspection {
	t.Helper()
	if _, err := conn.Do("SCRIPT", "LOAD", incarnation.Script()); err != nil {
		t.Fatal(err)
	}
	incarnation.SendInspection(conn, database, known, stale, maxTTL)
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	l, err := incarnation.ReadInspection(conn.Receive)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTheScriptJudgesRecords(t *testing.T) {
	for name, s := range servers(t) {
		own := s.run // its run_id, or Unknown
		for _, row := range []struct {
			name     string
			record   string // "" for none, "list" for a list
			database string
			stale    bool
			want     incarnation.Why
		}{
			{"none", "", "0", false, incarnation.Absent},
			{"one of another type", "list", "0", false, incarnation.Absent},
			{"no record", "junk", "0", false, incarnation.Absent},
			{"one without a MaxTTL", own + " 1700000000000000 0", "0", false, incarnation.Absent},
			{"one without a number of evictions", own + " 1700000000000000 0 60000 adopted", "0", false, incarnation.Absent},
			{"its own", own + " 1700000000000000 0 0 -", "0", false, incarnation.Holds},
			{"its own, adopted", own + " 1700000000000000 0 0 - adopted", "0", false, incarnation.Holds},
			{"its own, with a MaxTTL", own + " 1700000000000000 0 60000 -", "0", false, incarnation.Holds},
			{"its own, with a MaxTTL, adopted", own + " 1700000000000000 0 0 - adopted", "0", false, incarnation.Holds},
			{"its own, adopted with two others", own + " 1700000000000000 0 0 - adopted 3", "0", false, incarnation.Holds},
			{"its own, adopted with many others", own + " 1700000000000000 0 0 - adopted 64", "0", false, incarnation.Holds},
			{"one adopted with none", own + " 1700000000000000 0 0 - adopted 0", "0", false, incarnation.Absent},
			{"one adopted with too many", own + " 1700000000000000 0 0 - adopted 100", "0", false, incarnation.Absent},
			{"one adopted with an odd number", own + " 1700000000000000 0 0 - adopted 03", "0", false, incarnation.Absent},
			{"one adopted twice", own + " 1700000000000000 0 0 - adopted adopted", "0", false, incarnation.Absent},
			{"one adopted with two numbers", own + " 1700000000000000 0 0 - adopted 3 3", "0", false, incarnation.Absent},
			{"one with a MaxTTL above a week", own + " 1700000000000000 0 604800001 -", "0", false, incarnation.Absent},
			{"one with a MaxTTL of ten digits", own + " 1700000000000000 0 0000000001 -", "0", false, incarnation.Absent},
			{"one with a MaxTTL below zero", own + " 1700000000000000 0 -1 -", "0", false, incarnation.Absent},
			{"its own, of before keys were evicted", own + " 1700000000000000 0 1 2", "0", false, map[bool]incarnation.Why{true: incarnation.Evicted, false: incarnation.Holds}[own != incarnation.Unknown]},
			{"its own, no key was evicted since", own + " 1700000000000000 0 1 0", "0", false, incarnation.Holds},
			{"its own, of a client that may not know", own + " 1700000000000000 0 1 - adopted", "0", false, incarnation.Holds},
			{"one with three numbers", own + " 1700000000000000 0 1 0 0", "0", false, incarnation.Absent},
			{"one with a negative number", own + " 1700000000000000 0 1 -2", "0", false, incarnation.Absent},
			{"one with a number of 21 digits", own + " 1700000000000000 0 1 000000000000000000017", "0", false, incarnation.Absent},
			{"its own, of a client that may not say its database", own + " 1700000000000000 0 0 -", "-", false, incarnation.Holds},
			{"its own, which is stale", own + " 1700000000000000 0 0 -", "0", true, incarnation.Stale},
			{"of another database", own + " 1700000000000000 1 0 -", "0", false, incarnation.Database},
			{"from the future", own + " 9007199254740991 0 0 -", "0", false, incarnation.Clock},
			{"of another process", run + " 1700000000000000 0 0 -", "0", false, map[bool]incarnation.Why{true: incarnation.Holds, false: incarnation.Restart}[own == incarnation.Unknown]},
		} {
			t.Run(name+": "+row.name, func(t *testing.T) {
				s.conn.Do("DEL", incarnation.Key)
				switch row.record {
				case "":
				case "list":
					s.conn.Do("LPUSH", incarnation.Key, "x")
				default:
					s.conn.Do("SET", incarnation.Key, row.record)
				}
				if !row.stale && row.record != "list" { // reading changes nothing, and has the same result
					before, _ := redis.String(s.conn.Do("GET", incarnation.Key))
					if l, err := incarnation.Read(s.conn); row.database == "0" && s.run != incarnation.Unknown && (err != nil || l.Why != row.want) {
						t.Errorf("Read = %+v, %v, want %q", l, err, row.want)
					}
					after, _ := redis.String(s.conn.Do("GET", incarnation.Key))
					if ttl, _ := redis.Int(s.conn.Do("PTTL", incarnation.Key)); before != after || ttl > 0 {
						t.Errorf("Read has changed %q to %q, with %d ms to live", before, after, ttl)
					}
				}
				var known *incarnation.Known
				if r, ok := incarnation.Parse(row.record); ok {
					known = incarnation.Know(incarnation.Inspection{Record: r, Run: s.run})
				}
				wantLook(t, s, row.record, row.database, look(t, s.conn, row.database, known, row.stale), row.want)
			})
		}
	}
}

// wantLook fails t unless an inspection has found and done what it should.
func wantLook(t *testing.T, s server, record, database string, got incarnation.Inspection, want incarnation.Why) {
	t.Helper()
	if got.Why != want {
		t.Errorf("Why = %q, want %q", got.Why, want)
	}
	stands, err := redis.String(s.conn.Do("GET", incarnation.Key))
	if err != nil || stands != got.Record.Text {
		t.Errorf("the record is %q (%v), and the answer %q", stands, err, got.Record.Text)
	}
	if want == incarnation.Holds && stands != record {
		t.Errorf("the record is %q, want it to be what it was, %q", stands, record)
	}
	if want != incarnation.Holds && (got.Record.Run != s.run || got.Record.Database != database || got.Record.Adopted || got.Age() != 0) {
		t.Errorf("the new record is %+v, %v old, want one of %s and %s that begins now", got.Record, got.Age(), s.run, database)
	}
	left, err := redis.Int64(s.conn.Do("PTTL", incarnation.Key))
	expiry := incarnation.Know(got).Expiry()
	if off := expiry.Sub(got.Now) - time.Duration(left)*time.Millisecond; err != nil || off < -10*time.Millisecond || off > time.Minute {
		t.Errorf("the record lives for %d ms (%v), want until %v", left, err, expiry)
	}
}

// A new record takes over the largest MaxTTL that was declared.
func TestALargerMaxTTLRaisesTheRecords(t *testing.T) {
	for name, s := range servers(t) {
		own := s.run + " 1700000000000000 0"
		for _, row := range []struct {
			name, record string
			stale        bool
			declared     time.Duration
			want         string // "": a new record
			maxTTL       time.Duration
		}{
			{"a larger one", own + " 10000 -", false, time.Minute, own + " 60000 -", time.Minute},
			{"a smaller one", own + " 10000 -", false, time.Second, own + " 10000 -", 10 * time.Second},
			{"the same", own + " 10000 -", false, 10 * time.Second, own + " 10000 -", 10 * time.Second},
			{"of an adopted record", own + " 0 - adopted", false, time.Second, own + " 1000 - adopted", time.Second},
			{"of a record adopted with two others", own + " 0 - adopted 3", false, time.Second, own + " 1000 - adopted 3", time.Second},
			{"the largest that is possible", own + " 10000 -", false, incarnation.MaxTTLMost, own + " 604800000 -", incarnation.MaxTTLMost},
			{"with a new record", "", false, time.Minute, "", time.Minute},
			{"of a record that holds no more", own + " 60000 -", true, time.Second, "", time.Minute},
			{"the same, a larger one", own + " 60000 -", true, time.Hour, "", time.Hour},
			{"of another process' record", run + " 1700000000000000 1 60000 -", false, time.Second, "", time.Minute},
		} {
			t.Run(name+": "+row.name, func(t *testing.T) {
				s.conn.Do("DEL", incarnation.Key)
				var known *incarnation.Known
				if row.record != "" {
					s.conn.Do("SET", incarnation.Key, row.record)
					r, _ := incarnation.Parse(row.record)
					known = incarnation.Know(incarnation.Inspection{Record: r, Run: s.run})
				}
				got := declare(t, s.conn, "0", known, row.stale, row.declared)
				if got.Record.MaxTTL != row.maxTTL || row.want != "" && got.Record.Text != row.want || (row.want == "") != (got.Why != incarnation.Holds) {
					t.Errorf("the record is %q, %q, want %q with a MaxTTL of %v", got.Record.Text, got.Why, row.want, row.maxTTL)
				}
				if row.want != "" && !known.Record.SameMemory(got.Record) || row.want == "" && known != nil && known.Record.SameMemory(got.Record) {
					t.Errorf("%q and %q are said to be of the same memory, or not, by mistake", row.record, got.Record.Text)
				}
				if stands, err := redis.String(s.conn.Do("GET", incarnation.Key)); err != nil || stands != got.Record.Text {
					t.Errorf("the record is %q (%v), and the answer %q", stands, err, got.Record.Text)
				}
				left, err := redis.Int64(s.conn.Do("PTTL", incarnation.Key))
				expiry := incarnation.Know(got).Expiry()
				if off := expiry.Sub(got.Now) - time.Duration(left)*time.Millisecond; err != nil || off < -10*time.Millisecond || off > time.Minute {
					t.Errorf("the record lives for %d ms (%v), want until %v", left, err, expiry)
				}
			})
		}
	}
}

func TestAnAdoptedRecordIsNewAndHolds(t *testing.T) {
	for name, s := range servers(t) {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				l, err := incarnation.Adopt(s.conn, 0, 0)
				if err != nil || !l.Record.Adopted || l.Record.Run != s.run || l.Age() != 0 {
					t.Errorf("Adopt = %+v, %v, want an adopted record of %s that begins now", l, err, s.run)
				}
				if again := look(t, s.conn, l.Record.Database, incarnation.Know(l), false); again.Why != incarnation.Holds || again.Record != l.Record {
					t.Errorf("a look at it = %+v, want it to hold", again)
				}
			}
		})
	}
}

// Only an inspection loads the probe's script.
func TestAProbeSucceedsAfterAnInspection(t *testing.T) {
	for name, s := range servers(t) {
		t.Run(name, func(t *testing.T) {
			known := incarnation.Know(look(t, s.conn, "0", nil, false))
			probe := func() (time.Time, bool) {
				known.Probe(s.conn, false)
				s.conn.Flush()
				reply, _ := s.conn.Receive()
				return known.Probed(reply)
			}
			if _, there := probe(); there {
				t.Error("a record that no look has confirmed is known")
			}
			l := look(t, s.conn, "0", known, false)
			now, there := probe()
			if off := now.Sub(l.Now); !there || off < -10*time.Millisecond || off > time.Minute {
				t.Errorf("Probed = %v, %v, want it to be there, at about %v", now, there, l.Now)
			}
			s.conn.Do("SCRIPT", "FLUSH")
			if _, there := probe(); there {
				t.Error("the script was flushed, and is there")
			}
		})
	}
}

func TestAnInspectionThatFailsSaysWhy(t *testing.T) {
	replies := func(all ...any) func() (any, error) {
		return func() (reply any, err error) {
			reply, all = all[0], all[1:]
			if err, ok := reply.(error); ok {
				return nil, err
			}
			return reply, nil
		}
	}
	record, queued := []byte(run+" 1700000000000000 0 0 -"), "QUEUED"
	all := func(replies ...any) []any { return []any{"OK", queued, queued, replies} }
	for _, row := range []struct {
		name    string
		replies []any
		want    string
	}{
		{"there are no transactions", []any{redis.Error("NOPERM a"), "sha", []any{record, int64(1), "", run}, redis.Error("ERR")}, "NOPERM a"},
		{"the record's script may not be loaded", []any{"OK", redis.Error("NOPERM b"), queued, redis.Error("EXECABORT")}, "NOPERM b"},
		{"it may not be run", []any{"OK", queued, redis.Error("NOPERM c"), redis.Error("EXECABORT")}, "NOPERM c"},
		{"it fails", all("sha", redis.Error("NOPERM d")), "NOPERM d"},
		{"its neighbour fails", all(redis.Error("ERR e"), []any{record, int64(1), "", run}), "ERR e"},
		{"another transaction", all("sha"), "1 replies to EXEC"},
		{"no transaction", []any{"OK", queued, queued, nil}, ""},
		{"no list", all("sha", int64(1)), "unexpected reply of type int64"},
		{"a list of three", all("sha", []any{record, int64(1), ""}), "unexpected reply"},
		{"no time", all("sha", []any{record, "x", "", run}), "unexpected reply"},
		{"no record", all("sha", []any{[]byte("junk"), int64(1), "", run}), "the record is not valid"},
		{"a record that held no more", all("sha", []any{[]byte("junk"), int64(1), "absent", run}), "none"},
		{"all is well", all("sha", []any{record, int64(1), "", run}), "none"},
	} {
		_, err := incarnation.ReadInspection(replies(row.replies...))
		if got := fmt.Sprint(err); (err == nil) != (row.want == "none") || err != nil && !strings.Contains(got, row.want) {
			t.Errorf("%s: ReadInspection = %v, want %q", row.name, err, row.want)
		}
	}
}
