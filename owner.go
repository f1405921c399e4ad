package redlock

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/master"
)

// checkOwner sets the default of Options.Owner, or returns an error for one that cannot be.
func (o *Options) checkOwner() error {
	switch {
	case o.DisableOwner && o.Owner != "":
		return fmt.Errorf("redlock: Options.Owner is %q, but DisableOwner is set", o.Owner)
	case o.DisableOwner:
	case o.Owner == "":
		o.Owner = processOwner()
	case len(o.Owner) > master.OwnerMost:
		return fmt.Errorf("redlock: Options.Owner is %d bytes long, the limit is %d", len(o.Owner), master.OwnerMost)
	case !master.IsOwner(o.Owner):
		return fmt.Errorf("redlock: Options.Owner is %q, want printable ASCII characters without spaces", o.Owner)
	}
	return nil
}

// processOwner returns the default owner: host/pid.
func processOwner() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '-'
		}
		return r
	}, host)
	pid := "/" + strconv.Itoa(os.Getpid())
	return host[:min(len(host), master.OwnerMost-len(pid))] + pid
}

// newToken returns 20 bytes of randomness as text, as the specification asks, and the owner, if there
// is one.
func newToken(owner string) string {
	var b [20]byte
	rand.Read(b[:]) // never fails: see crypto/rand
	var text [27]byte
	base64.RawURLEncoding.Encode(text[:], b[:])
	return master.TokenOf(text[:], owner)
}
