package server

// How the locks of several names are acquired: all keys of a master, or none.

// acquireSet executes a call of set.lua, and returns the answer.
func (c *call) acquireSet(keys, args []string) any {
	c.id = args[0]
	verb, ttl, proposal, token, earlier := args[1], number(args[2]), args[3], args[4], args[5:]
	mayHold := func(i int, held string) bool { return held == token || i < len(earlier) && held == earlier[i] }
	if verb == "follow" {
		for i, key := range keys {
			if c.lock(key).Token != earlier[i] {
				return errText("ERR a key is not held")
			}
		}
		for _, key := range keys {
			if l := c.lock(key); len(l.queue)+len(l.waiting) > 0 {
				return errText("ERR a client is in a queue")
			}
		}
		c.setAll(keys, token, ttl)
		return int64(1)
	}
	last := int64(0)
	if proposal != "" {
		for _, key := range keys {
			last = max(last, c.lock(key).fence)
		}
	}
	if answer := c.inTheWay(keys, mayHold, verb == "behind" && c.id != "", last); answer != nil {
		return answer
	}
	c.setAll(keys, token, ttl)
	if proposal == "" {
		return int64(1)
	}
	given := max(last+1, min(number(proposal), c.ticks()+second))
	for _, key := range keys {
		c.raise(&c.lock(key).fenced, given)
	}
	return []any{int64(1), given, int64(0), int64(0)}
}

func (c *call) setAll(keys []string, token string, ttl int64) {
	for _, key := range keys {
		c.set(c.lock(key), token, ttl)
	}
}

// inTheWay returns the answer if a key is held or, for a client that yields, has a queue; else nil.
func (c *call) inTheWay(keys []string, mayHold func(i int, held string) bool, yields bool, last int64) any {
	which, longest, readers := 0, int64(-1), int64(1)
	for i, key := range keys {
		l := c.lock(key)
		if l.Token == "" || mayHold(i, l.Token) {
			continue
		}
		c.recall(key, l.Token)
		if left := millis(l.Until, c.now); left > longest {
			which, longest = i+1, left
		}
		if l.Token != Marker {
			readers = 0
		}
	}
	if which > 0 {
		return []any{-2 - longest, last, int64(which), readers}
	}
	for i, key := range keys {
		if yields && len(c.lock(key).queue) > 0 {
			return []any{int64(-1), last, int64(i + 1), int64(0)}
		}
	}
	return nil
}
