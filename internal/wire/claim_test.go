package wire

import (
	"fmt"
	"testing"
	"time"
)

// wordOf returns the word of a request for master 1.
func wordOf(r Request, c *Claim, listening bool, sent time.Time) any {
	cmd := Command{Kind: r.Kind(), Request: r, Claim: c, Listening: listening, Sent: sent}
	return cmd.word(1)
}

func TestTheWordSaysWhatTheClaimAndTheRequestDo(t *testing.T) {
	now := time.Unix(1000, 0)
	terms := NewTerms("k", 9*time.Second)
	readers := terms.ForReaders()
	fence := Proposal{Number: 7}
	claim := func(terms Terms, of ClaimOf) *Claim { c := NewClaim(&terms, of); return &c }
	plain, waited, once := claim(terms, ClaimOf{}), claim(terms, ClaimOf{Waited: 1500 * time.Millisecond}), claim(terms, ClaimOf{Waited: NoQueue})
	fenced := claim(terms, ClaimOf{Waited: -2 * time.Second, Fence: fence})
	reader := claim(readers, ClaimOf{Waited: time.Second})
	fencedReader := claim(readers, ClaimOf{Waited: NoQueue, Fence: fence})
	queuedReader := claim(readers, ClaimOf{Waited: time.Second, Grant: 400 * time.Millisecond, RegisterTTL: time.Second, Spared: 1 << 1, Made: now, Fence: fence})
	queued := claim(terms, ClaimOf{Grant: 400 * time.Millisecond, RegisterTTL: time.Second, Spared: 1 << 1, Made: now, Fence: fence})
	unspared := claim(terms, ClaimOf{Grant: 400 * time.Millisecond, RegisterTTL: time.Second, Spared: 1 << 2, Made: now})
	for _, row := range []struct {
		request   Request
		claim     *Claim
		listening string // the word at a master where the client has a subscription
		deaf      string // and where it has none
	}{
		{Register, plain, "register 9000 0 0", "register 9000 0- 0"},
		{Again, waited, "again 9000 1500 0", "again 9000 1500- 0"},
		{Again, once, "again 9000 - 0", "again 9000 - 0"},
		{Set, fenced, "acquire 9000 - - 7", "acquire 9000 - - 7"},
		{Register, fenced, "register 9000 -2000 0 7", "register 9000 -2000- 0 7"},
		{Register, queued, "register 0 0 400f 7", "register 0 5000- 400f 7"},
		{Register, unspared, "register 1000 0 400", "register 1000 5000- 400"},
		{Again, queued, "again 400 0 400f 7", "again 400 5000- 400f 7"},
		{Again, reader, "readers register 9000 1000 -", "readers register 9000 1000 -"},
		{Again, fencedReader, "readers register 9000 0 - 7", "readers register 9000 0 - 7"},
		{Register, queuedReader, "readers register 0 1000 400f 7", "readers register 0 6000- 400f 7"},
		{Again, queuedReader, "readers again 400 1000 400f 7", "readers again 400 6000- 400f 7"},
		{Polling(1<<1, false, false), queuedReader, "readers again 0 1000 400f 7", "readers again 0 6000- 400f 7"},
		{Polling(0, false, true), queuedReader, "readers asks 400 1000 400f 7", "readers asks 400 6000- 400f 7"},
		{Polling(0, false, true), queued, "again 400 0 400f 7", "again 400 5000- 400f 7"},
		{Release, queuedReader, "readers release 400f", "readers release 400f"},
		{queuedReader.ReleasingFree(1 << 1), queuedReader, "readers release 400f free", "readers release 400f free"},
		{queuedReader.ReleasingFree(1 << 2), queuedReader, "readers release 400f", "readers release 400f"},
		{queuedReader.Releasing(ToToken("X"), 0), queuedReader, "readers release 400f =X", "readers release 400f =X"},
		{Release, reader, "readers release", "readers release"},
		{Undo, reader, "readers undo", "readers undo"},
		{reader.Healing(8), reader, "readers heal 9000 8", "readers heal 9000 8"},
		{Renew, plain, "renew 9000", "renew 9000"},
		{plain.RenewingAsked(), plain, "renew 9000 -", "renew 9000 -"},
		{reader.RenewingAsked(), reader, "readers renew 9000", "readers renew 9000"},
		{Undo, queued, "undo", "undo"},
		{Announce, waited, "readers announce 1500", "readers announce 1500"},
		{Announce, once, "readers announce -", "readers announce -"},
		{Retract, once, "readers retract", "readers retract"},
		{Release, plain, "release", "release"},
		{Release, queued, "release 400f", "release 400f"},
		{plain.Releasing(ToHead, 0), plain, "release", "release"},
		{plain.Releasing(Open, 0), plain, "release 0 open 0", "release 0 open 0"},
		{fenced.Releasing(Open, 9), fenced, "release 0 open 9", "release 0 open 9"},
		{queued.Releasing(ToHead, 0), queued, "release 400f", "release 400f"},
		{queued.Releasing("token", 0), queued, "release 400f token 0", "release 400f token 0"},
		{queued.Releasing(ToHead, 9), queued, "release 400f - 9", "release 400f - 9"},
		{queued.ReleasingFree(1 << 1), queued, "release 400f free 0", "release 400f free 0"},
		{queued.ReleasingFree(1 << 2), queued, "release 400f", "release 400f"},
		{fenced.Committing(8), fenced, "commit 8 9000", "commit 8 9000"},
		{reader.Committing(8), reader, "readers commit 8 9000", "readers commit 8 9000"},
		{fenced.Healing(8), fenced, "heal 9000 8", "heal 9000 8"},
		{plain.Healing(0), plain, "heal 9000 0", "heal 9000 0"},
	} {
		listening, deaf := wordOf(row.request, row.claim, true, now.Add(5*time.Second)), wordOf(row.request, row.claim, false, now.Add(5*time.Second))
		if listening != row.listening || deaf != row.deaf {
			t.Errorf("%v: the word is %q with a subscription and %q without, want %q and %q", row.request.Kind(), listening, deaf, row.listening, row.deaf)
		}
	}
}

// What is sent to each master must not be made for each.
func TestTheUsualWordsAreMadeOnce(t *testing.T) {
	terms := NewTerms("k", 9*time.Second)
	fence := Proposal{Number: 7}
	for _, row := range []struct {
		kind  Kind
		terms *Terms
		of    ClaimOf
	}{
		{Set, &terms, ClaimOf{Fence: fence}},
		{Register, &terms, ClaimOf{}},
		{Again, &terms, ClaimOf{Fence: fence, Waited: time.Second}},
		{Release, &terms, ClaimOf{Grant: time.Second, RegisterTTL: time.Second}},
	} {
		row.of.Kind = row.kind
		c := NewClaim(row.terms, row.of)
		cmd := Command{Kind: row.kind, Request: row.kind, Claim: &c, Listening: true}
		if n := testing.AllocsPerRun(100, func() { _ = cmd.word(0) }); n != 0 {
			t.Errorf("%v of %s: %v allocations for each master, want none", row.kind, fmt.Sprint(cmd.word(0)), n)
		}
	}
}
