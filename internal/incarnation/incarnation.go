// Package incarnation tells one life of a master's memory from the next.
//
// A master that restarts without its memory, or with an old copy of it, hands
// out locks that somebody holds. So each master keeps a record of its present
// life under [Key]: the run_id of its process, since when, and the database. Any
// way of losing the memory loses the record, or leaves one that contradicts the
// server; then a script writes another, which begins a quarantine for everybody.
//
// Three things are asked of a record behind every vote, by [Known.Probe], in two
// plain commands: that it is there, that it is the one that the client has judged,
// and that the server's clock has not jumped. Its expiry, a moment of its own in
// the year 2100, answers all three. That the memory is still the one in which it was
// judged, rather than a copy in another process behind the same connection, a
// script tells whose text is the record: it is loaded and never run, and Redis 7
// neither persists nor replicates scripts.
package incarnation

import (
	"crypto/sha1"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Margin is what a quarantine lasts beyond the longest TTL: for rounds that were
// under way, and for clocks.
const Margin = 2 * time.Second

// Key is where a master keeps its record.
const Key = "redlock:incarnation"

//go:embed incarnation.lua
var script string

var scriptSHA any = redis.NewScript(-1, script).Hash()

// What a look does: see the script.
const (
	keep  = "keep"
	read  = "read"
	adopt = "adopt"
)

// Unknown stands for a run_id, or a database, that the server does not tell us.
const Unknown = "-"

// A Record says since when a memory is known.
type Record struct {
	Text     string    // as it stands on the master
	Run      string    // the run_id of the process that had written it, or Unknown
	Since    time.Time // by the master's clock
	Database string    // the one in which it was written, or Unknown
	Adopted  bool      // nobody held a lock then, so there is nothing to wait for
}

// Parse reads a record's text. It reports whether it is one.
func Parse(text string) (Record, bool) {
	f := strings.Split(text, " ")
	if len(f) != 3 && (len(f) != 4 || f[3] != "adopted") {
		return Record{}, false
	}
	micros, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return Record{}, false
	}
	return Record{Text: text, Run: f[0], Since: time.UnixMicro(micros), Database: f[2], Adopted: len(f) == 4}, true
}

// Adopted returns the record of a memory whose server does not tell its run_id, and
// that is adopted now.
func Adopted(now time.Time) *Known {
	r, ok := Parse(fmt.Sprintf("%s %d %s adopted", Unknown, now.UnixMicro(), Unknown))
	if !ok {
		panic("redlock: bug: a record that is none")
	}
	return Know(Look{Record: r, Run: Unknown})
}

// A Why says why a record did not hold. The empty one says that it does.
type Why string

// Why a record does not hold.
const (
	Holds    Why = ""
	Absent   Why = "absent"   // there was none: the memory is new, or was lost
	Restart  Why = "restart"  // another process had written it
	Database Why = "database" // it was written in another database
	Clock    Why = "clock"    // it is from the future
	Stale    Why = "stale"    // a client knows that it holds no longer
)

func (w Why) String() string {
	switch w {
	case Holds:
		return "its record holds"
	case Absent:
		return "it has no memory of redlock: it is new, or has lost it"
	case Restart:
		return "it was restarted, or another server has taken its place"
	case Database:
		return "its databases were swapped"
	case Clock:
		return "its clock was set back"
	case Stale:
		return "its clock has jumped, or it was a replica meanwhile"
	}
	return "its record does not hold: " + string(w)
}

// A Look is what a master said of its incarnation.
type Look struct {
	Record Record    // the zero Record if there is none
	Now    time.Time // by the master's clock
	Why    Why       // why the record that was there before did not hold
	Run    string    // the process' run_id, or Unknown
}

// Age returns for how long the memory has been known: 0 if there is no record.
func (l Look) Age() time.Duration {
	if l.Record.Text == "" {
		return 0
	}
	return l.Now.Sub(l.Record.Since)
}

// decode reads the script's answer.
func decode(reply any) (Look, error) {
	parts, err := redis.Values(reply, nil)
	if err != nil || len(parts) != 4 {
		return Look{}, fmt.Errorf("unexpected reply of type %T", reply)
	}
	text, err1 := redis.String(parts[0], nil)
	micros, err2 := redis.Int64(parts[1], nil)
	why, err3 := redis.String(parts[2], nil)
	run, err4 := redis.String(parts[3], nil)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return Look{}, errors.New("unexpected reply")
	}
	l := Look{Now: time.UnixMicro(micros), Why: Why(why), Run: run}
	if text == "" {
		return l, nil
	}
	var ok bool
	if l.Record, ok = Parse(text); !ok && l.Why == Holds {
		return Look{}, errors.New("the record is none")
	}
	return l, nil
}

// A Known is a record as a client that has judged it knows it.
type Known struct {
	Record Record // immutable
	marker string // immutable; the script whose text is the record
	exists []any  // immutable; the arguments of SCRIPT that ask for it
	moment int64  // immutable; when the record expires, in ms
}

// Know returns what there is to know of the record that was looked at.
func Know(l Look) *Known {
	r := l.Record
	sum := sha1.Sum([]byte(r.Text))
	marker := "--" + r.Text // Lua's comment
	if l.Run == Unknown {
		// Who cannot tell one process from the next has a script of its own: from
		// this one others tell that nobody has restarted.
		marker = "--blind " + r.Text
	}
	return &Known{
		Record: r,
		marker: marker,
		exists: []any{"EXISTS", redis.NewScript(-1, marker).Hash()},
		moment: 4_102_444_800_000 + int64(binary.BigEndian.Uint32(sum[:4])),
	}
}

// Expiry returns the moment at which the record expires.
func (k *Known) Expiry() time.Time { return time.UnixMilli(k.moment) }

// Probe sends what is asked behind votes; two replies follow.
func (k *Known) Probe(conn redis.Conn) error {
	if err := conn.Send("PTTL", ttlArgs...); err != nil {
		return err
	}
	return conn.Send("SCRIPT", k.exists...)
}

// Arguments, boxed once for redigo, and a list of them made once: a probe is sent
// with every vote.
var (
	keyArg  any = Key
	ttlArgs     = []any{keyArg}
)

// Probed reads the replies to Probe: the master's time, if the record is as it
// was left; and whether the script is where it was loaded. If either is not so,
// another look has to tell.
func (k *Known) Probed(ttl, exists any) (now time.Time, there bool) {
	left, ok := ttl.(int64)
	list, ok2 := exists.([]any)
	if !ok || !ok2 || left < 0 || len(list) != 1 || list[0] != int64(1) {
		return time.Time{}, false
	}
	return time.UnixMilli(k.moment - left), true
}

// SendLook sends the question for a master's record, to be written if there is
// none that holds. If k is not nil it is loaded as a script as well, and if it is
// stale it is to be written anew. A record is known when a look that has loaded it
// answers with it: then this process is the one that the record names. Both happen at
// one moment: a script that was loaded into another process must not be seen there
// together with a record that does not hold.
func SendLook(conn redis.Conn, database string, k *Known, stale bool) error {
	if err := conn.Send("SCRIPT", "LOAD", script); err != nil {
		return err
	}
	marker, old := "--", ""
	if k != nil {
		marker = k.marker
		if stale {
			old = k.Record.Text
		}
	}
	if err := conn.Send("MULTI"); err != nil {
		return err
	}
	if err := conn.Send("SCRIPT", "LOAD", marker); err != nil {
		return err
	}
	if err := conn.Send("EVALSHA", scriptSHA, 1, keyArg, database, keep, old); err != nil {
		return err
	}
	return conn.Send("EXEC")
}

// ReadLook reads the replies to SendLook, by receive.
func ReadLook(receive func() (any, error)) (Look, error) {
	var first error
	for range 4 { // SCRIPT LOAD, MULTI, and two that are queued
		if _, err := receive(); err != nil && first == nil {
			first = err
		}
	}
	replies, err := redis.Values(receive())
	if first != nil {
		err = first
	}
	if err == nil && len(replies) != 2 {
		err = fmt.Errorf("%d replies to EXEC", len(replies))
	}
	if err != nil {
		return Look{}, err
	}
	for _, reply := range replies {
		if err, failed := reply.(redis.Error); failed {
			return Look{}, err
		}
	}
	return decode(replies[1])
}

// Read looks at a master's record and changes nothing: Why says why it does not
// hold.
func Read(conn redis.Conn) (Look, error) { return do(conn, read) }

// Adopt declares that nobody holds a lock on a master, so that its votes count at
// once: for servers that were just created.
func Adopt(conn redis.Conn) (Look, error) { return do(conn, adopt) }

func do(conn redis.Conn, what string) (Look, error) {
	info, err := redis.String(conn.Do("CLIENT", "INFO"))
	if err != nil && conn.Err() != nil {
		return Look{}, err
	}
	if _, err := conn.Do("SCRIPT", "LOAD", script); err != nil {
		return Look{}, err
	}
	reply, err := conn.Do("EVALSHA", scriptSHA, 1, Key, DatabaseOf(info), what, "")
	if err != nil {
		return Look{}, err
	}
	return decode(reply)
}

// DatabaseOf returns the database that a connection has selected, from CLIENT
// INFO's reply, or Unknown.
func DatabaseOf(clientInfo string) string {
	for field := range strings.FieldsSeq(clientInfo) {
		if db, ok := strings.CutPrefix(field, "db="); ok {
			return db
		}
	}
	return Unknown
}
