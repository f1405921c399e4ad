package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// A word is a name, a literal or a sign of a Lua text.
type word struct {
	text   string
	at, to int
	first  bool // of its line
}

var luaWords = regexp.MustCompile(`--[^\n]*|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\d+|==|~=|<=|>=|\.\.|[^\s]`)

// wordsOf returns the words of a Lua text, without comments. Long strings and comments are not known.
func wordsOf(script string) []word {
	var all []word
	end := 0
	for _, at := range luaWords.FindAllStringIndex(script, -1) {
		text := script[at[0]:at[1]]
		first := len(all) == 0 || strings.Contains(script[end:at[0]], "\n")
		if strings.HasPrefix(text, "--") {
			continue
		}
		all = append(all, word{text, at[0], at[1], first})
		end = at[1]
	}
	return all
}

var (
	opening = []string{"(", "{", "["}
	closing = []string{")", "}", "]"}
	// Neither begins a statement, nor ends one if it is the last of a line.
	joining = []string{"and", "or", "==", "~=", "<", ">", "<=", ">=", "..", "+", "-", "*", "/", "=", ",", "not", ".", ":"}
	// An operand of and, and of or, ends before one of these.
	after = []string{"and", "or", "then", "do", ",", ";", "end", "else", "elseif", "until"}
	// An operand begins behind one of these.
	before = []string{"and", "or", "if", "elseif", "while", "until", "return", "=", ","}
)

// in reports whether a word is one of some words.
func (t word) in(words []string) bool { return slices.Contains(words, t.text) }

// changesOfLua returns the changes of a Lua text.
func changesOfLua(text string) []change {
	all := wordsOf(text)
	var changes []change
	for i, t := range all {
		switch {
		case t.text == "~=":
			changes = append(changes, change{at: t.at, to: t.to, by: "=="})
		case negated[t.text] != "":
			changes = append(changes, change{at: t.at, to: t.to, by: strings.Replace(negated[t.text], "!=", "~=", 1)})
		case t.text == "and" || t.text == "or":
			left, right := operands(all, i)
			changes = append(changes, change{at: all[left].at, to: all[i+1].at}, change{at: all[i-1].to, to: all[right].to})
		case t.text == "if" || t.text == "elseif":
			if end := condition(all, i); end > 0 {
				changes = append(changes, change{at: all[i+1].at, to: all[end-1].to, by: "not (" + text[all[i+1].at:all[end-1].to] + ")"})
			}
		case t.first:
			if end := statement(all, i); end > 0 {
				changes = append(changes, change{at: t.at, to: all[end-1].to})
			}
		}
	}
	return changes
}

// operands returns the first word of the left operand of the i-th word, and the last one of the right operand.
func operands(all []word, i int) (left, right int) {
	depth := 0
	for left = i; left > 0; left-- {
		t := all[left-1]
		if depth == 0 && (t.in(before) || t.in(opening)) {
			break
		} else if t.in(closing) {
			depth++
		} else if t.in(opening) {
			depth--
		}
	}
	depth = 0
	for right = i; right+1 < len(all); right++ {
		t := all[right+1]
		if depth == 0 && right > i && (t.in(after) || t.in(closing) || t.first && !t.in(joining)) {
			break
		} else if t.in(opening) {
			depth++
		} else if t.in(closing) {
			depth--
		}
	}
	return left, right
}

// condition returns the word behind a condition that has neither a comparison nor operands; 0: it has.
func condition(all []word, i int) (end int) {
	for end = i + 1; all[end].text != "then"; end++ {
		if t := all[end]; t.text == "and" || t.text == "or" || t.text == "~=" || negated[t.text] != "" {
			return 0
		}
	}
	return end
}

// statement returns the word behind a call, an assignment or a return that begins with the i-th word; 0: another
// statement begins there, or none.
func statement(all []word, i int) (end int) {
	t := all[i]
	if i > 0 && all[i-1].in(joining) || t.in(joining) || t.in(closing) {
		return 0
	}
	if word := t.text; !regexp.MustCompile(`^[A-Za-z_]`).MatchString(word) ||
		slices.Contains([]string{"local", "function", "if", "elseif", "else", "end", "for", "while", "do", "then", "repeat", "until"}, word) {
		return 0
	}
	depth := 0
	for _, t := range all[:i] {
		if t.in(opening) {
			depth++
		} else if t.in(closing) {
			depth--
		}
	}
	if depth > 0 {
		return 0 // inside of an expression
	}
	for end = i; end < len(all); end++ {
		t := all[end]
		if end > i && depth == 0 && t.first && !t.in(joining) && !all[end-1].in(joining) {
			break
		} else if t.in(opening) {
			depth++
		} else if t.in(closing) {
			depth--
		}
	}
	return end
}

// loads reports whether a mutant of a script can be loaded.
func (m *mutant) loads() bool {
	server := miniredis.NewMiniRedis()
	if server.Start() != nil {
		return true
	}
	defer server.Close()
	conn, err := redis.Dial("tcp", server.Addr())
	if err != nil {
		return true
	}
	defer conn.Close()
	_, err = conn.Do("SCRIPT", "LOAD", m.mutated())
	return err == nil
}
