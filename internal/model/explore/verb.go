package explore

import "fmt"

// A Verb is a kind of step, and the words for it: a format. In it, %[1]s is the client, %[2]d is the master, and %[3]v is the command. A model
// may add more.
type Verb string

// Say describes a step. Masters are counted from 1 in words.
func (v Verb) Say(client string, master int, command any, more ...any) string {
	return fmt.Sprintf(string(v), append([]any{client, master + 1, command}, more...)...)
}

// Reach explores a model in which certain kinds of steps must occur: those that have true. A world without them would show nothing about them.
// The result misses those that do not occur.
func (m Model[S, A]) Reach(verb func(A) Verb, must map[Verb]bool) Result {
	did, observe := make(map[Verb]bool), m.Observe
	m.Observe = func(a A) {
		did[verb(a)] = true
		if observe != nil {
			observe(a)
		}
	}
	r := m.Explore().Result()
	for v, has := range must {
		if has && !did[v] {
			r.Missed += fmt.Sprintf("%q; ", string(v))
		}
	}
	return r
}
