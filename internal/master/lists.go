package master

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/wire"
)

// Two clients whose lists of masters differ can both have a quorum. A client that subscribes also tells its number of masters,
// and each client asks every master from time to time whether others have another number. Lists of one length that name
// different servers are not found in this way: redlock doctor finds them.

// listsEvery is how often a master is asked.
const listsEvery = 30 * time.Second

// listsForbidden is for how many periods a master that does not answer is left out.
const listsForbidden = 20

// askListsLocked asks the master how many masters other clients have, if that is due: a second after the first connection, and
// whenever a period of listsEvery begins. The periods are the same for all masters of a Client, so that what it finds becomes one line for the
// Logger. A new connection does not ask at once: others may not have subscribed again yet.
func (m *Master) askListsLocked(now time.Time) {
	period := 1 + int(now.Sub(m.began)/listsEvery)
	if m.cfg.ID == "" || m.cfg.Deaf || period <= m.listsAsked {
		return
	}
	m.listsAsked = period
	m.outbox.push(newItem(wire.ListCensus(), nil, lists{m}))
}

// lists is the Asker of a wire.ListCensus.
type lists struct{ m *Master }

func (l lists) Answered(_ int, a wire.Answer) {
	if a.Err != nil {
		return // the connection was lost
	}
	mine := len(l.m.cfg.Servers.Client.Names)
	others, ok := wire.DecodeLists(a.Replies, mine)
	l.m.update(func() {
		if !ok {
			l.m.listsAsked += listsForbidden
		}
		err := listError(others, mine)
		// After a restart of the master, others may not have subscribed again yet. So one answer that finds none is not believed.
		if wait := ok && err == nil && !l.m.listsNone; wait {
			l.m.listsNone = true
			return
		}
		l.m.listsNone = err == nil
		l.m.status.ListErr = err
	})
}

// listError returns an error which says that other clients have these numbers of masters, or nil if there are none.
func listError(others []int, mine int) error {
	if len(others) == 0 {
		return nil
	}
	texts := make([]string, len(others))
	for i, n := range others {
		texts[i] = strconv.Itoa(n)
	}
	return fmt.Errorf("other clients have another number of masters, %s, and this one has %d: clients with different lists can hold the same lock at once; redlock doctor names them",
		strings.Join(texts, " or "), mine)
}
