package redisconn

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"
)

// Printable returns text as one line of visible characters, so that it can neither control a terminal nor
// forge a line of a log. Line breaks and tabs become spaces, several in a row become one space. Other
// characters that are not visible, escapes for example, become question marks.
func Printable(text string) string {
	if !strings.ContainsFunc(text, needsReplacing) {
		return text
	}
	text = strings.Join(strings.FieldsFunc(text, isBreak), " ")
	return strings.Map(func(r rune) rune {
		if needsReplacing(r) {
			return '?'
		}
		return r
	}, text)
}

func isBreak(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }

// needsReplacing is also true for bytes that are not UTF-8.
func needsReplacing(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }

// textLongest is how many bytes of a server's text ServerText keeps.
const textLongest = 500

// ServerText returns the beginning of a server's text, made printable.
func ServerText(text string) string {
	if len(text) > textLongest {
		text = strings.ToValidUTF8(text[:textLongest], "") + "…"
	}
	return Printable(text)
}

// PrintableError returns err with its text shortened and made printable, as ServerText does. The result
// wraps err, or is a redis.Error if err is one. A nil err is returned as it is.
func PrintableError(err error) error {
	if err == nil {
		return nil
	}
	raw := err.Error()
	text := ServerText(raw)
	if text == raw {
		return err
	}
	if _, isError := err.(redis.Error); isError {
		return redis.Error(text)
	}
	return &printableError{text, err}
}

// A printableError is an error with another text.
type printableError struct {
	text string
	err  error
}

func (e *printableError) Error() string { return e.text }
func (e *printableError) Unwrap() error { return e.err }
