package incarnation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/redisserver"
)

const run = "0123456789abcdef0123456789abcdef01234567"

func TestOnlyARecordIsParsed(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_123_456)
	for _, row := range []struct {
		text string
		want incarnation.Record
		ok   bool
	}{
		{run + " 1700000000123456 0", incarnation.Record{Run: run, Since: at, Database: "0"}, true},
		{run + " 1700000000123456 15 adopted", incarnation.Record{Run: run, Since: at, Database: "15", Adopted: true}, true},
		{"- 1700000000123456 -", incarnation.Record{Run: incarnation.Unknown, Since: at, Database: incarnation.Unknown}, true},
		{text: ""},
		{text: run},
		{text: run + " 1700000000123456"},
		{text: run + " 1700000000123456 0 forgotten"},
		{text: run + " 1700000000123456 0 adopted twice"},
		{text: run + " yesterday 0"},
		{text: run + " 99999999999999999999 0"},
		{text: run + "  1700000000123456 0"},
	} {
		got, ok := incarnation.Parse(row.text)
		if ok {
			row.want.Text = row.text
		}
		if ok != row.ok || got != row.want {
			t.Errorf("Parse(%q) = %+v, %v, want %+v, %v", row.text, got, ok, row.want, row.ok)
		}
	}
	now := time.Now()
	if r := incarnation.Adopted(now).Record; !r.Adopted || r.Run != incarnation.Unknown || !r.Since.Equal(now.Truncate(time.Microsecond)) {
		t.Errorf("Adopted = %+v, want a record of a server that hides its run_id, adopted now", r)
	}
}

func TestAgeIsByTheMastersClock(t *testing.T) {
	r, _ := incarnation.Parse(run + " 1700000000000000 0")
	now := time.UnixMicro(1_700_000_007_000_000)
	if got := (incarnation.Look{Record: r, Now: now}).Age(); got != 7*time.Second {
		t.Errorf("Age = %v, want 7s", got)
	}
	if got := (incarnation.Look{Now: now}).Age(); got != 0 {
		t.Errorf("Age without a record = %v, want 0", got)
	}
}

func TestTheDatabaseIsFoundInClientInfo(t *testing.T) {
	for info, want := range map[string]string{
		"id=3 addr=127.0.0.1:6379 name=db=7 db=2 sub=0\n": "2",
		"id=3 db=11": "11",
		"id=3":       incarnation.Unknown,
		"":           incarnation.Unknown,
	} {
		if got := incarnation.DatabaseOf(info); got != want {
			t.Errorf("DatabaseOf(%q) = %q, want %q", info, got, want)
		}
	}
}

// Each record expires at a moment of its own, by which it is told from others.
func TestRecordsDifferInTheirExpiry(t *testing.T) {
	seen := make(map[int64]bool)
	for i := range 1000 {
		r, _ := incarnation.Parse(fmt.Sprintf("%s %d 0", run, 1_700_000_000_000_000+i))
		at := incarnation.Know(incarnation.Look{Record: r}).Expiry()
		if at.Year() < 2099 || at.Year() > 2101 {
			t.Fatalf("a record expires at %v, want about the year 2100", at)
		}
		seen[at.UnixMilli()] = true
	}
	if len(seen) != 1000 {
		t.Errorf("1000 records expire at %d moments", len(seen))
	}
}

func TestAProbeWantsTheRecordAndTheScript(t *testing.T) {
	r, _ := incarnation.Parse(run + " 1700000000000000 0")
	k := incarnation.Know(incarnation.Look{Record: r})
	now := time.UnixMilli(1_700_000_001_234)
	left := k.Expiry().Sub(now).Milliseconds()
	for _, row := range []struct {
		name        string
		ttl, exists any
		want        bool
	}{
		{"both are there", left, []any{int64(1)}, true},
		{"the script is gone", left, []any{int64(0)}, false},
		{"the record is gone", int64(-2), []any{int64(1)}, false},
		{"the record lives for ever", int64(-1), []any{int64(1)}, false},
		{"an error to the first", nil, []any{int64(1)}, false},
		{"an error to the second", left, nil, false},
		{"a reply of another length", left, []any{int64(1), int64(1)}, false},
		{"an empty reply", left, []any{}, false},
		{"a reply of another type", "OK", "OK", false},
	} {
		got, there := k.Probed(row.ttl, row.exists)
		if there != row.want || there && !got.Equal(now) {
			t.Errorf("%s: Probed = %v, %v, want %v, %v", row.name, got, there, now, row.want)
		}
	}
}

// A server is one on which the script is tried.
type server struct {
	conn redis.Conn
	run  string // that it tells, or Unknown
}

// servers returns an embedded server, which tells no run_id, and a real one.
func servers(t *testing.T) map[string]server {
	t.Helper()
	embedded := miniredis.RunT(t)
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

// look looks, as a client does.
func look(t *testing.T, conn redis.Conn, database string, known *incarnation.Known, stale bool) incarnation.Look {
	t.Helper()
	if err := incarnation.SendLook(conn, database, known, stale); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	l, err := incarnation.ReadLook(conn.Receive)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTheScriptJudgesRecords(t *testing.T) {
	for name, s := range servers(t) {
		own := s.run // its run_id, or what stands for it
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
			{"its own", own + " 1700000000000000 0", "0", false, incarnation.Holds},
			{"its own, adopted", own + " 1700000000000000 0 adopted", "0", false, incarnation.Holds},
			{"its own, of a client that may not say its database", own + " 1700000000000000 0", "-", false, incarnation.Holds},
			{"its own, which is stale", own + " 1700000000000000 0", "0", true, incarnation.Stale},
			{"of another database", own + " 1700000000000000 1", "0", false, incarnation.Database},
			{"from the future", own + " 9007199254740991 0", "0", false, incarnation.Clock},
			{"of another process", run + " 1700000000000000 0", "0", false, map[bool]incarnation.Why{true: incarnation.Holds, false: incarnation.Restart}[own == incarnation.Unknown]},
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
				if !row.stale && row.record != "list" { // to read changes nothing, and says the same
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
					known = incarnation.Know(incarnation.Look{Record: r, Run: s.run})
				}
				wantLook(t, s, row.record, row.database, look(t, s.conn, row.database, known, row.stale), row.want)
			})
		}
	}
}

// wantLook fails t unless a look at a record has found and done what it should.
func wantLook(t *testing.T, s server, record, database string, got incarnation.Look, want incarnation.Why) {
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

func TestAnAdoptedRecordIsNewAndHolds(t *testing.T) {
	for name, s := range servers(t) {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				l, err := incarnation.Adopt(s.conn)
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

// A script whose text is the record is loaded by a look, and by nothing else.
func TestAProbeFollowsALook(t *testing.T) {
	for name, s := range servers(t) {
		t.Run(name, func(t *testing.T) {
			known := incarnation.Know(look(t, s.conn, "0", nil, false))
			probe := func() (time.Time, bool) {
				if err := known.Probe(s.conn); err != nil {
					t.Fatal(err)
				}
				s.conn.Flush()
				ttl, _ := s.conn.Receive()
				exists, _ := s.conn.Receive()
				return known.Probed(ttl, exists)
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

func TestALookThatFailsSaysWhy(t *testing.T) {
	replies := func(all ...any) func() (any, error) {
		return func() (reply any, err error) {
			reply, all = all[0], all[1:]
			if err, ok := reply.(error); ok {
				return nil, err
			}
			return reply, nil
		}
	}
	record, queued := []byte(run+" 1700000000000000 0"), "QUEUED"
	all := func(replies ...any) []any { return []any{"sha", "OK", queued, queued, replies} }
	for _, row := range []struct {
		name    string
		replies []any
		want    string
	}{
		{"none may be loaded", []any{redis.Error("NOPERM a"), "OK", redis.Error("NOPERM b"), queued, redis.Error("EXECABORT")}, "NOPERM a"},
		{"there are no transactions", []any{"sha", redis.Error("NOPERM a"), "sha", []any{record, int64(1), "", run}, redis.Error("ERR")}, "NOPERM a"},
		{"the record's script may not be loaded", []any{"sha", "OK", redis.Error("NOPERM b"), queued, redis.Error("EXECABORT")}, "NOPERM b"},
		{"it may not be run", []any{"sha", "OK", queued, redis.Error("NOPERM c"), redis.Error("EXECABORT")}, "NOPERM c"},
		{"it fails", all("sha", redis.Error("NOPERM d")), "NOPERM d"},
		{"its neighbour fails", all(redis.Error("ERR e"), []any{record, int64(1), "", run}), "ERR e"},
		{"another transaction", all("sha"), "1 replies to EXEC"},
		{"no transaction", []any{"sha", "OK", queued, queued, nil}, ""},
		{"no list", all("sha", int64(1)), "unexpected reply of type int64"},
		{"a list of three", all("sha", []any{record, int64(1), ""}), "unexpected reply"},
		{"no time", all("sha", []any{record, "x", "", run}), "unexpected reply"},
		{"no record", all("sha", []any{[]byte("junk"), int64(1), "", run}), "the record is none"},
		{"a record that held no more", all("sha", []any{[]byte("junk"), int64(1), "absent", run}), "none"},
		{"all is well", all("sha", []any{record, int64(1), "", run}), "none"},
	} {
		_, err := incarnation.ReadLook(replies(row.replies...))
		if got := fmt.Sprint(err); (err == nil) != (row.want == "none") || err != nil && !strings.Contains(got, row.want) {
			t.Errorf("%s: ReadLook = %v, want %q", row.name, err, row.want)
		}
	}
}

func TestEveryReasonIsASentence(t *testing.T) {
	seen := make(map[string]bool)
	for _, why := range []incarnation.Why{incarnation.Holds, incarnation.Absent, incarnation.Restart, incarnation.Database, incarnation.Clock, incarnation.Stale, "else"} {
		if s := why.String(); !strings.HasPrefix(s, "it") || seen[s] {
			t.Errorf("%q: %q, want a sentence of its own", string(why), s)
		} else {
			seen[s] = true
		}
	}
}
