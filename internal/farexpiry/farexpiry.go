// Package farexpiry lets miniredis keep the record of a master's memory on 32 bits. The record expires in the year 2100, and an int
// of miniredis is too short for the milliseconds until then.
package farexpiry

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// Needed reports whether miniredis needs the help of this package.
const Needed = strconv.IntSize == 32

// Is reports whether a command sets or asks for the expiry of the record.
func Is(command string, args []string) bool {
	return len(args) > 0 && args[0] == incarnation.Key && (command == "PEXPIREAT" || command == "PTTL")
}

// IsProbe reports whether a command is the restart guard's probe. One with a further argument also finds out whether keys
// were evicted, which miniredis never does.
func IsProbe(command string, args []string) bool {
	return command == "EVALSHA" && (len(args) == 3 || len(args) == 4) && args[2] == incarnation.Key
}

// Answer answers a command for which Is is true. The expiry follows from the text of the record, so miniredis need not keep it. The
// peer may be that of a script, which has locked miniredis.
func Answer(srv *server.Server, p *server.Peer, command string) {
	left, ok := expiresIn(srv, p)
	switch {
	case !ok && command == "PTTL":
		p.WriteInt(-2)
	case !ok:
		p.WriteInt(0)
	case command == "PTTL":
		WriteInt(p, left.Milliseconds())
	default:
		p.WriteInt(1)
	}
}

// expiresIn returns how much longer the record will live, and reports whether there is one.
func expiresIn(srv *server.Server, p *server.Peer) (time.Duration, bool) {
	text := ask(srv, p, "GET", incarnation.Key)
	_, text, _ = strings.Cut(strings.TrimSuffix(text, "\r\n"), "\r\n")
	record, ok := incarnation.Parse(text)
	if !ok {
		return 0, false
	}
	return time.Until(incarnation.Know(incarnation.Inspection{Record: record}).Expiry()), true
}

// ask returns the reply to a command of the peer.
func ask(srv *server.Server, p *server.Peer, command ...string) string {
	var out bytes.Buffer
	write := bufio.NewWriter(&out)
	inner := server.NewPeer(write)
	inner.Ctx = p.Ctx
	srv.Dispatch(inner, command)
	write.Flush()
	return out.String()
}

// WriteInt writes an integer that may be too long for an int.
func WriteInt(p *server.Peer, n int64) { p.WriteRaw(":" + strconv.FormatInt(n, 10) + "\r\n") }

// Help lets a miniredis that has been started keep the record, if it needs that. It replaces the hook of its server.
func Help(m *miniredis.Miniredis) {
	if Needed {
		m.Server().SetPreHook(Hook(m.Server()))
	}
}

// Hook returns a hook for a server of miniredis. It answers what miniredis cannot on 32 bits: commands about the record's expiry,
// and the probe, whose script returns it.
func Hook(srv *server.Server) server.Hook {
	return func(p *server.Peer, command string, args ...string) bool {
		switch {
		case Is(command, args):
			Answer(srv, p, command)
		case IsProbe(command, args):
			if ask(srv, p, "SCRIPT", "EXISTS", args[0]) != "*1\r\n:1\r\n" {
				p.WriteError("NOSCRIPT No matching script. Please use EVAL.")
				return true
			}
			Answer(srv, p, "PTTL")
		default:
			return false
		}
		return true
	}
}
