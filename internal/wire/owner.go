package wire

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"strconv"
	"strings"
)

// A token names its owner behind the random part, so that the key stays one string for clients
// that do not know of owners: "Xq3…k@web-1/4711". A client's id has the same form. Its random part ends in a character
// that says how many masters the client has. Clients that do not know this take the character as random.

// OwnerMost is how long an owner may be, in bytes.
const OwnerMost = 128

const (
	ownerMark   = "@"
	keeperMark  = "~"
	randomLeast = 16 // bytes of the random part: shorter text in front of the sign is not a token's
	idRandom    = 27 // bytes of the random part of a client's id, without the number of masters

	// base64url has the digits of base64url, in their order.
	base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// NewToken returns a token: 20 bytes of randomness as text, as the specification asks, and the owner, if there
// is one.
func NewToken(owner string) string {
	text := randomText()
	return withOwner(text[:], owner)
}

// NewID returns the id of a client with this number of masters, 1 to 64.
func NewID(masters int, owner string) string {
	text := randomText()
	return withOwner(append(text[:], base64url[masters-1]), owner)
}

func randomText() (text [idRandom]byte) {
	var b [20]byte
	rand.Read(b[:]) // never fails: see crypto/rand
	base64.RawURLEncoding.Encode(text[:], b[:])
	return text
}

// withOwner returns the token or the client id that has this random part and owner. The owner may
// be empty.
func withOwner(random []byte, owner string) string {
	if owner == "" {
		return string(random)
	}
	var text [tokenMost]byte // on the stack: the string is the only allocation
	b := append(text[:0], random...)
	b = append(b, ownerMark...)
	b = append(b, owner...)
	return string(b)
}

// MastersOf returns how many masters the client with this id has. It is 0 for an id that is not of this form.
func MastersOf(id string) int {
	random, _, _ := strings.Cut(id, ownerMark)
	if len(random) != idRandom+1 || strings.ContainsFunc(random, notRandom) {
		return 0
	}
	return strings.IndexByte(base64url, random[idRandom]) + 1
}

// KeptBy returns a token for a lock that the client with this id may keep while nobody else wants it. random is the random part
// of the token. The id is behind it, so that the scripts can send a recall to the client: see Recall. It ends with the
// owner, if there is one.
func KeptBy(random, id string) string { return random + keeperMark + id }

// MayBeKept reports whether the client that has the token may keep the lock while nobody holds it: see KeptBy.
func (h Holder) MayBeKept() bool {
	text, _, _ := strings.Cut(h.Token, ownerMark)
	random, id, marked := strings.Cut(text, keeperMark)
	return marked && len(random) >= randomLeast && id != "" && !strings.ContainsFunc(random+id, notRandom)
}

// OwnerOf returns the owner that a token or a client id names. It is empty for text of another form,
// such as the tokens of clients in other languages. Otherwise it is a valid owner, whatever a server
// has answered: text that is safe to show.
func OwnerOf(token string) string {
	random, owner, _ := strings.Cut(token, ownerMark)
	random = strings.Replace(random, keeperMark, "", 1)
	if len(random) < randomLeast || !IsOwner(owner) || strings.ContainsFunc(random, notRandom) {
		return ""
	}
	return owner
}

// IsOwner reports whether text may be an owner: 1 to OwnerMost printable characters of ASCII, and no
// space, since a space ends a token in a message.
func IsOwner(text string) bool {
	return text != "" && len(text) <= OwnerMost && !strings.ContainsFunc(text, notGraphic)
}

func notGraphic(r rune) bool { return r <= ' ' || r > '~' }

// notRandom reports whether a character is not of base64url.
func notRandom(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}

// ProcessOwner returns the owner that names this process: host/pid.
func ProcessOwner() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if notGraphic(r) {
			return '-'
		}
		return r
	}, host)
	pid := "/" + strconv.Itoa(os.Getpid())
	return host[:min(len(host), OwnerMost-len(pid))] + pid
}
