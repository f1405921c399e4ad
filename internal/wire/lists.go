package wire

import (
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Each client also subscribes to a channel that says how many masters it has. So a client can ask a master whether others have
// a list of another length, and the cost of the answer does not grow with the number of clients.

// MastersMost is how many masters a client can have.
const MastersMost = len(base64url)

const listChannel = WakeChannel + "masters:"

// ListChannel returns the channel of the clients with this number of masters, 1 to MastersMost.
func ListChannel(masters int) string { return listChannel + strconv.Itoa(masters) }

// IsListChannel reports whether a channel that begins with WakeChannel is no client's own, but one of ListChannel.
func IsListChannel(channel string) bool { return strings.HasPrefix(channel, listChannel) }

// ListCensus returns a query for how many masters the clients of a master have. DecodeLists reads the reply.
func ListCensus() Query {
	args := []any{"PUBSUB", "NUMSUB"}
	for n := range MastersMost {
		args = append(args, ListChannel(n+1))
	}
	return Query{args}
}

// DecodeLists returns the numbers of masters, other than that of the calling client, that clients of the master have. It reports
// false if the master does not say.
func DecodeLists(replies []any, masters int) (others []int, ok bool) {
	if len(replies) != 1 {
		return nil, false
	}
	counts, err := redis.IntMap(replies[0], nil)
	if err != nil || len(counts) != MastersMost {
		return nil, false
	}
	for n := 1; n <= MastersMost; n++ {
		if counts[ListChannel(n)] > 0 && n != masters {
			others = append(others, n)
		}
	}
	return others, true
}
