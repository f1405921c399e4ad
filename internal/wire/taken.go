package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A SlotLook is what one master knows of a semaphore.
type SlotLook struct {
	Slots []SlotTaken // the first of the slots that are taken, in ascending order
	Taken int         // how many slots are taken; more than there are in Slots if only some are listed
	Queue
}

// A SlotTaken is a slot in which a token stands.
type SlotTaken struct {
	Slot int // its number
	Holder
}

// slotsListed is how many slots are listed.
const slotsListed = 256

// NewSlotLook returns a query for what a master knows of a semaphore. DecodeSlotLook reads the replies. Its scripts are loaded each
// time, as by NewLook.
func NewSlotLook(key string) Query {
	until, queue := untilKey+key, permitsKey+key
	return Query{
		{"TIME"},
		{"ZCARD", until},
		{"SCRIPT", "LOAD", takenLua.text()},
		{"EVALSHA", takenLua.sha(), 3, slotsKey + key, until, takenKey + key, slotsListed, tokenMost},
		{"ZCARD", queue},
		{"SCRIPT", "LOAD", membersLua.text()},
		{"EVALSHA", membersLua.sha(), 1, queue, waitersMost - 1, memberMost + 16}, // a member has its number of slots and its limit, too
	}
}

// Keys beside the record of a semaphore, whose key follows.
const (
	untilKey   = "redlock:until:"
	takenKey   = "redlock:taken:"
	permitsKey = "redlock:permits:"
)

// DecodeSlotLook returns what the replies to NewSlotLook's query mean. The error says why the slots could not be read. What else could
// not be read is left out.
func DecodeSlotLook(replies []any) (look SlotLook, err error) {
	if len(replies) != 7 {
		return look, errOddReply
	}
	now, err := redis.Int64s(replies[0], nil)
	if err != nil || len(now) != 2 {
		return look, oddReply(replies[0])
	}
	parts, err := redis.Strings(replies[3], nil)
	if err != nil || len(parts)%4 != 0 {
		return look, oddReply(replies[3])
	}
	ms := float64(now[0]*1000 + now[1]/1000)
	for ; len(parts) > 0; parts = parts[4:] {
		slot, err1 := strconv.Atoi(parts[0])
		expiry, err2 := strconv.ParseFloat(parts[1], 64)
		limit, err3 := strconv.Atoi(parts[3])
		last := -1
		if n := len(look.Slots); n > 0 {
			last = look.Slots[n-1].Slot
		}
		if err1 != nil || err2 != nil || err3 != nil || slot <= last || slot >= LimitMost || limit < 0 || limit > LimitMost || parts[2] == "" || len(parts[2]) > tokenMost {
			return SlotLook{}, errOddReply
		}
		if left := expiry - ms; left > 0 { // else it has expired
			left = min(left, float64(leftMost.Milliseconds()))
			look.Slots = append(look.Slots, SlotTaken{slot, Holder{Token: parts[2], Left: time.Duration(left) * time.Millisecond, Limit: limit}})
		}
	}
	look.Taken = len(look.Slots)
	if n, _ := redis.Int(replies[1], nil); n > slotsListed {
		look.Taken = min(n, LimitMost)
	}
	look.add(replies[0], replies[4], replies[6], (*Waiter).wants)
	return look, nil
}

// wants decodes what a member of the queue of a semaphore has behind its client: token, g, number of slots and limit.
func (w *Waiter) wants(member string) {
	parts := strings.Split(member, " ")
	if len(parts) < 4 {
		return
	}
	permits, err1 := strconv.Atoi(parts[2])
	limit, err2 := strconv.Atoi(parts[3])
	if err1 == nil && err2 == nil && permits > 0 && permits <= SlotsMost && limit > 0 && limit <= LimitMost {
		w.Token, w.Permits, w.Limit = parts[0], permits, limit
	}
}
