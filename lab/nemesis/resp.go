package main

import (
	"bytes"
	"strconv"
)

// A counter counts the complete values in a stream of RESP 2 or 3. It does not count pushed values
// of RESP 3.
type counter struct {
	values int // complete values so far

	line []byte // the first part of a header
	skip int    // how many bytes of a string are missing, with its line end
	open []int  // how many elements of each open array are missing
	push bool   // the outermost array is a push
}

func (c *counter) feed(p []byte) {
	for len(p) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(p))
			c.skip -= n
			p = p[n:]
			if c.skip == 0 {
				c.complete()
			}
			continue
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			c.line = append(c.line, p...)
			return
		}
		c.line = append(c.line, p[:end]...)
		p = p[end+1:]
		c.header(c.line)
		c.line = c.line[:0]
	}
}

// header handles the first line of a value.
func (c *counter) header(line []byte) {
	if len(line) == 0 {
		return
	}
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch line[0] {
	case '>':
		c.push = c.push || len(c.open) == 0
		c.array(n)
	case '*', '~':
		c.array(n)
	case '%', '|':
		c.array(2 * n)
	case '$', '=', '!':
		if n < 0 {
			c.complete()
			return
		}
		c.skip = n + len("\r\n")
	default:
		c.complete()
	}
}

func (c *counter) array(n int) {
	if n <= 0 {
		c.complete()
		return
	}
	c.open = append(c.open, n)
}

// complete handles the end of a value, and of the arrays that end with it.
func (c *counter) complete() {
	for len(c.open) > 0 {
		last := len(c.open) - 1
		c.open[last]--
		if c.open[last] > 0 {
			return
		}
		c.open = c.open[:last]
	}
	if !c.push {
		c.values++
	}
	c.push = false
}
