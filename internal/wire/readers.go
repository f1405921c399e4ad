package wire

// Readers use a script of their own. A writer's commands are those of any lock, but for Announce.

// Wakes reports whether Wake must follow a command: the script of the readers wakes no writer.
func (cmd *Command) Wakes() bool { return cmd.Kind == Release && cmd.Claim.reads }

// ForReaders makes the claims with these terms those of readers.
func (t Terms) ForReaders() Terms {
	t.reads = true
	return t
}

// reading returns the word of an acquisition by a reader. turn is - unless the client joins the queue.
func (c *Claim) reading(turn string) string {
	waited := c.waited
	if !c.queues() {
		waited, turn = "0", noQueue
	}
	word := "read " + c.ttl.(string) + " " + waited + " " + turn
	if c.fenced() {
		word += " " + c.proposal
	}
	return word
}

// decodeReader decodes the script's number for a command of a reader, as Kind.decode does.
func (k Kind) decodeReader(n int64) (a Answer, ok bool) {
	if n == 2 && (k.Acquires() || k == Renew) {
		return Answer{Outcome: Granted, Recalled: true}, true
	}
	return k.decode(n)
}
