package wire

import (
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// What Go and the scripts have in common. A script names such a value const.NAME, and include puts the value there: see Constants.
const (
	// Near is how many clients at the front of a queue are near. The others poll seldom.
	Near = 3

	// ReadersMarker is what the key of a lock holds while readers hold it. It is also in the place of the token in the message by which a
	// master asks the readers of a key to leave.
	ReadersMarker = "redlock:readers"

	// ReadersNear is how many readers at the front of their queue are near. A release grants the lock to all of them at once.
	ReadersNear = 16

	// NearMost is how many claims on slots are near at most: see NearOf.
	NearMost = 16

	// standingBytes is how many bytes of a token the script tells of those who stand in slots.
	standingBytes = 16

	// markLeast and stopMost: see YoungFor.
	markLeast = 150 * time.Millisecond
	stopMost  = 520 * time.Millisecond

	// PollsWithin is after how long, since it has joined, a claim has polled for the first time, unless its client is stopped.
	PollsWithin = 5 * time.Second

	// joinedLately is for how long a claim that has joined its queue is live without a note. After that it is unheard for PollsWithin: so a client
	// that registers claims again and again need not note that each time.
	joinedLately = 500 * time.Millisecond

	// FenceTick is the unit in which fences count the time.
	FenceTick = 250 * time.Microsecond

	// tokenMost is how many bytes of a token are read and told at most. Ours have 27, and up to 129 for the owner.
	tokenMost = 256

	// setAside is added to the score of a member while it is set aside, in µs.
	setAside = 4e15

	// noteLife is for how long the note of a client stays when it is over. It then says that the client is silent.
	noteLife = 10 * time.Second

	// queueLife is how long a queue is kept after a client was put at its front, or the head has polled: longer than any sleep between attempts.
	queueLife = 10 * time.Minute

	// lookedThrough is how many members of queues a call looks through at most.
	lookedThrough = 1000
)

// YoungFor returns for how long the registration of a claim with this g is a young mark of a grant. A release, or a poll that gets
// the lock, need not tell such a claim that it is near: the claim need not ping before it is granted the lock, and polls soon. If g is a second, a process that stops for half a second right after the grant
// keeps the lease: stopMost has the drift of its clock, too. A mark that is older than half of g is too old.
func YoungFor(g time.Duration) time.Duration { return max(markLeast, min(g-stopMost, g/2)) }

var constants = sync.OnceValue(func() map[string]string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return map[string]string{
		"near":          strconv.Itoa(Near),
		"readersMarker": "'" + ReadersMarker + "'",
		"readersNear":   strconv.Itoa(ReadersNear),
		"nearMost":      strconv.Itoa(NearMost),
		"standingBytes": strconv.Itoa(standingBytes),
		"joinedLately":  ms(joinedLately),
		"markLeast":     ms(markLeast),
		"stopMost":      ms(stopMost),
		"pollsWithin":   ms(PollsWithin),
		"tickMicros":    strconv.FormatInt(FenceTick.Microseconds(), 10),
		"ticksASecond":  strconv.FormatInt(int64(time.Second/FenceTick), 10),
		"tokenMost":     strconv.Itoa(tokenMost),
		"setAside":      strconv.FormatInt(setAside, 10),
		"noteLife":      ms(noteLife),
		"queueLife":     ms(queueLife),
		"lookedThrough": strconv.Itoa(lookedThrough),
	}
})

// Constants returns the text of a script with the values in it.
func Constants(text string) string {
	var b strings.Builder
	writeConstants(&b, text)
	return b.String()
}

// writeConstants writes the text of a script with the values in it. A strings.Replacer takes ten times as long, and each process of the command
// that locks begins with this.
func writeConstants(w io.StringWriter, text string) {
	for {
		before, rest, found := strings.Cut(text, "const.")
		w.WriteString(before)
		if !found {
			return
		}
		name := rest[:strings.IndexFunc(rest, func(c rune) bool { return !unicode.IsLetter(c) })]
		value, is := constants()[name]
		if !is {
			panic("redlock: bug: a script names const." + name)
		}
		w.WriteString(value)
		text = rest[len(name):]
	}
}
