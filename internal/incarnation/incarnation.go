// Package incarnation tells one memory of a master from the next.
//
// A master that restarts without its data, or with an old copy, grants locks that another client holds. So
// each master keeps a record under [Key]: the run_id of its process, the time at which the record was
// written, the database, the largest MaxTTL, and how many keys the process had evicted. If the data is lost, the
// record is lost too, or it contradicts the server. Then a script writes a new record, which begins a quarantine for all clients.
//
// A probe behind each vote, [Known.Probe], runs a script that returns the record's PTTL. It checks that
//
//   - the record is there, and is the one that the client has inspected: each record expires at a moment of
//     its own in the year 2100, so PTTL identifies it;
//   - the server's clock has not jumped, which PTTL shows, too;
//   - the memory is that of the process in which the record was inspected, and not a copy in another process
//     behind the same connection: the script's text contains the record, and only an inspection loads it. Redis 7
//     neither saves nor replicates scripts;
//   - with a careful probe: no key was evicted since the record was written. To a client, a lock that was evicted is free.
package incarnation

import (
	"cmp"
	"crypto/sha1"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Margin is how much longer than the longest TTL a quarantine lasts. It covers rounds that were under way,
// and the rates of clocks.
const Margin = 2 * time.Second

// Key is the key of a master's record.
const Key = "redlock:incarnation"

// script writes and reads the record.
//
//go:embed incarnation.lua
var script string

// Script is the text of the script that inspects a master's record.
func Script() string { return script }

// Hash returns the digest of Script. It is boxed once for redigo.
var Hash = sync.OnceValue(func() any { return redis.NewScript(-1, script).Hash() })

// What the script is to do: see incarnation.lua.
const (
	keep  = "keep"
	read  = "read"
	adopt = "adopt"
)

// Unknown stands for a run_id or a database that the server does not tell.
const Unknown = "-"

// A Record says since when a master's memory is known.
type Record struct {
	Text     string    // the value of Key
	Run      string    // the run_id of the process in which it was written, or Unknown
	Since    time.Time // by the master's clock
	Database string    // the one in which it was written, or Unknown
	Adopted  bool      // no lock was held then: see AdoptedFor
	Masters  int       // with how many masters it was adopted, or 0
	// MaxTTL is the largest that any client has declared; 0 if none has. A client with a larger one
	// raises it, which changes the text and nothing else.
	MaxTTL  time.Duration
	Evicted string // how many keys the process had evicted, in digits, or Unknown
}

// MaxTTLMost is the largest MaxTTL that a client may declare.
const MaxTTLMost = 7 * 24 * time.Hour

// LongestRecord is the length of the longest text that the script takes for a record.
const LongestRecord = 128

// Parse reads a record's text and reports whether it is a record.
func Parse(text string) (Record, bool) {
	r := Record{Text: text}
	f := strings.Split(text, " ")
	if last := len(f) - 1; last >= 4 && f[last-1] == "adopted" {
		if n, err := strconv.Atoi(f[last]); err == nil && 1 <= n && n <= 99 && f[last] == strconv.Itoa(n) {
			r.Masters, f = n, f[:last]
		}
	}
	if last := len(f) - 1; last >= 3 && f[last] == "adopted" {
		r.Adopted, f = true, f[:last]
	}
	if len(f) != 5 || !isWord(f[0]) || !isWord(f[2]) || !isCount(f[4]) {
		return Record{}, false
	}
	micros, err1 := strconv.ParseUint(f[1], 10, 63)
	ms, err2 := strconv.ParseUint(f[3], 10, 63)
	if err1 != nil || err2 != nil || len(f[3]) > 9 || ms > uint64(MaxTTLMost.Milliseconds()) {
		return Record{}, false
	}
	r.Run, r.Since, r.Database, r.Evicted = f[0], time.UnixMicro(int64(micros)), f[2], f[4]
	r.MaxTTL = time.Duration(ms) * time.Millisecond
	return r, true
}

// AdoptedFor reports whether clients with this number of masters need not wait for a quarantine, since no lock was held when the
// record was written. A new master that takes the place of another has no lock, but the other may have granted some that are still
// valid. So whoever adopts masters says how many there are, and that holds only for clients which have as many: a part of a
// longer list cannot be adopted.
func (r Record) AdoptedFor(masters int) bool {
	return r.Adopted && (r.Masters == 0 || r.Masters == masters)
}

// SameMemory reports whether two records are of the same memory: they differ only in MaxTTL.
func (r Record) SameMemory(other Record) bool {
	r.Text, r.MaxTTL = other.Text, other.MaxTTL
	return r == other
}

// CountsEvictions reports whether the record shows that keys were evicted since it was written.
func (r Record) CountsEvictions() bool { return r.Evicted != Unknown }

// isCount reports whether s is a number of keys, or Unknown.
func isCount(s string) bool {
	return s == Unknown || s != "" && len(s) <= 20 && !strings.ContainsFunc(s, func(c rune) bool { return c < '0' || c > '9' })
}

// isWord reports whether s consists of visible ASCII characters. Text from a server appears in errors and
// tables, where control characters would reach the terminal.
func isWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Adopted returns the record of a server that is adopted now, with the given run_id, or Unknown.
func Adopted(now time.Time, run string) *Known {
	r, ok := Parse(fmt.Sprintf("%s %d %s 0 %s adopted", run, now.UnixMicro(), Unknown, Unknown))
	if !ok {
		panic("redlock: bug: the record cannot be parsed")
	}
	return Know(Inspection{Record: r, Run: run})
}

// A Why is the reason why a record does not hold. It is empty if the record holds.
type Why string

// The reasons, as in incarnation.lua.
const (
	Holds    Why = ""
	Absent   Why = "absent"   // there was no record: the memory is new, or was lost
	Restart  Why = "restart"  // another process had written it
	Database Why = "database" // it was written in another database
	Evicted  Why = "evicted"  // keys were evicted since it was written
	Clock    Why = "clock"    // it is from the future
	Stale    Why = "stale"    // a client has declared that it no longer holds
)

// whys says what each reason means.
var whys = map[Why]string{
	Holds:    "its record holds",
	Absent:   "it has no memory of redlock: it is new, or has lost it",
	Restart:  "it was restarted, or another server has taken its place",
	Database: "its databases were swapped",
	Evicted:  "it has evicted keys, for lack of memory",
	Clock:    "its clock was set back",
	Stale:    "its clock has jumped, or it was a replica meanwhile",
}

func (w Why) String() string {
	return cmp.Or(whys[w], "its record does not hold: "+string(w))
}

// An Inspection is a master's answer about its record.
type Inspection struct {
	Record Record    // the record now; the zero Record if there is none
	Now    time.Time // by the master's clock
	Why    Why       // why the record before did not hold
	Run    string    // the run_id of the server's process, or Unknown
}

// Age returns how long the memory has been known. It is 0 if there is no record, or if the record is from
// the future.
func (l Inspection) Age() time.Duration {
	if l.Record.Text == "" {
		return 0
	}
	return max(0, l.Now.Sub(l.Record.Since))
}

// decode decodes the script's reply.
func decode(reply any) (Inspection, error) {
	parts, err := redis.Values(reply, nil)
	if err != nil || len(parts) != 4 {
		return Inspection{}, fmt.Errorf("unexpected reply of type %T", reply)
	}
	text, err1 := redis.String(parts[0], nil)
	micros, err2 := redis.Int64(parts[1], nil)
	why, err3 := redis.String(parts[2], nil)
	run, err4 := redis.String(parts[3], nil)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return Inspection{}, errors.New("unexpected reply")
	}
	if !isWord(run) || why != "" && !isWord(why) {
		return Inspection{}, errors.New("unexpected reply")
	}
	l := Inspection{Now: time.UnixMicro(micros), Why: Why(why), Run: run}
	if text == "" {
		return l, nil
	}
	var ok bool
	if l.Record, ok = Parse(text); !ok && l.Why == Holds {
		return Inspection{}, errors.New("the record is not valid")
	}
	return l, nil
}

// A Known is a record that a client has inspected, with what a probe needs.
type Known struct {
	Record  Record // immutable
	script  string // immutable; the probe's script, which contains the record
	probe   []any  // immutable; the arguments of EVALSHA that run it
	careful []any  // immutable; those for a careful probe
	expiry  int64  // immutable; when the record expires, in ms of Unix time
}

// Know returns the Known for the record of an inspection.
func Know(l Inspection) *Known {
	r := l.Record
	sum := sha1.Sum([]byte(r.Text))
	code := probeCode
	if r.CountsEvictions() {
		code = fmt.Sprintf(carefulCode, r.Evicted) + probeCode
	}
	text := code + "--" + r.Text // the record is a comment in the script
	if l.Run == Unknown {
		// Clients that cannot read run_id load a different script. Other clients take this one as a
		// proof that the process is the same.
		text = code + "--blind " + r.Text
	}
	sha := redis.NewScript(-1, text).Hash()
	return &Known{
		Record:  r,
		script:  text,
		probe:   []any{sha, 1, keyArg},
		careful: []any{sha, 1, keyArg, "careful"},
		expiry:  4_102_444_800_000 + int64(binary.BigEndian.Uint32(sum[:4])),
	}
}

// Expiry returns the moment at which the record expires.
func (k *Known) Expiry() time.Time { return time.UnixMilli(k.expiry) }

// Probe sends a probe, without a flush. PTTL and SCRIPT EXISTS would find out the same, at about the same cost to the server,
// but by a second reply, which is a list. A careful probe also finds out whether keys were evicted since the record was
// written, if the record counts evictions. It costs the server several times as much.
func (k *Known) Probe(conn redis.Conn, careful bool) {
	args := k.probe
	if careful {
		args = k.careful
	}
	conn.Send("EVALSHA", args...)
}

// probeCode is what the probe's script does. If the record counts evictions, carefulCode is before it.
const (
	probeCode   = "return redis.call('PTTL',KEYS[1])"
	carefulCode = `if ARGV[1] then local i=redis.pcall('INFO','stats') ` +
		`if type(i)=='string' and not string.find(i,'\nevicted_keys:%s\r',1,true) then return -3 end end `
)

// keyArg is Key, boxed once for redigo.
var keyArg any = Key

// Probed decodes the reply to a probe. It returns the master's time if the record is unchanged. It reports
// false if the record or the script is gone, or if keys were evicted. If another record has replaced it, the time is wrong, which
// looks like a jump of the clock. An inspection then finds out what has happened.
func (k *Known) Probed(reply any) (now time.Time, there bool) {
	left, ok := reply.(int64)
	if !ok {
		return time.Time{}, false
	}
	return k.Time(left)
}

// Time returns the master's time if the record lives for another ms milliseconds. It reports false if there is no
// record that expires.
func (k *Known) Time(ms int64) (now time.Time, there bool) {
	if ms < 0 {
		return time.Time{}, false
	}
	return time.UnixMilli(k.expiry - ms), true
}

// SendInspection asks for a master's record, without a flush. The script writes a new record if the old one does not hold, or
// is k's and stale. It raises the record's MaxTTL to maxTTL if that is larger.
//
// If k is not nil, its record is also loaded as a script, in the same transaction. If the reply is that very
// record, the record, the script and the process belong together. Without the transaction, the script could
// be loaded into one process, and the record be read from another.
//
// The server must have the Script. If it does not, ReadInspection returns the error NOSCRIPT.
func SendInspection(conn redis.Conn, database string, k *Known, stale bool, maxTTL time.Duration) {
	probe, old := probeCode, ""
	if k != nil {
		probe = k.script
		if stale {
			old = k.Record.Text
		}
	}
	conn.Send("MULTI")
	conn.Send("SCRIPT", "LOAD", probe)
	conn.Send("EVALSHA", Hash(), 1, keyArg, database, keep, old, maxTTL.Milliseconds())
	conn.Send("EXEC") // which fails if one of the others has
}

// ReadInspection reads the replies to SendInspection with receive.
func ReadInspection(receive func() (any, error)) (Inspection, error) {
	var first error
	for range 3 { // MULTI, and two that are queued
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
		return Inspection{}, err
	}
	for _, reply := range replies {
		if err, failed := reply.(redis.Error); failed {
			return Inspection{}, err
		}
	}
	return decode(replies[1])
}

// Read reads a master's record and changes nothing.
func Read(conn redis.Conn) (Inspection, error) { return do(conn, read, 0) }

// Adopt writes a record which says that no lock is held on a master, so that its votes count at once for clients with this
// number of masters, or for all clients if it is 0. It is meant for new servers. The record's MaxTTL becomes maxTTL, even if a larger one was declared. Connected clients declare
// the larger one again. 0 means that no client has declared one.
func Adopt(conn redis.Conn, maxTTL time.Duration, masters int) (Inspection, error) {
	if masters == 0 {
		return do(conn, adopt, maxTTL)
	}
	return do(conn, adopt, maxTTL, masters)
}

func do(conn redis.Conn, what string, maxTTL time.Duration, masters ...any) (Inspection, error) {
	info, err := redis.String(conn.Do("CLIENT", "INFO"))
	if err != nil && conn.Err() != nil {
		return Inspection{}, err
	}
	if _, err := conn.Do("SCRIPT", "LOAD", script); err != nil {
		return Inspection{}, err
	}
	args := []any{Hash(), 1, Key, DatabaseOf(info), what, "", maxTTL.Milliseconds()}
	reply, err := conn.Do("EVALSHA", append(args, masters...)...)
	if err != nil {
		return Inspection{}, err
	}
	return decode(reply)
}

// DatabaseOf returns the number of the database that a connection has selected, from
// CLIENT INFO's reply, or Unknown.
func DatabaseOf(clientInfo string) string {
	for field := range strings.FieldsSeq(clientInfo) {
		if db, ok := strings.CutPrefix(field, "db="); ok {
			if _, err := strconv.ParseUint(db, 10, 63); err != nil {
				return Unknown
			}
			return db
		}
	}
	return Unknown
}
