package explore

// Do calls next with a step from a state, and the state behind it.
func Do[S, A any](s *S, next func(A, S), a A, change func(n *S)) {
	n := *s
	change(&n)
	next(a, n)
}

// Try does the same, if change reports that the step can be taken.
func Try[S, A any](s *S, next func(A, S), a A, change func(n *S) bool) {
	if n := *s; change(&n) {
		next(a, n)
	}
}

// A Way calls back for the steps from a state, each of which a text describes.
type Way[S any] struct {
	S    *S              // the state, which is not changed
	Next func(string, S) // is called with each step, and the state behind it
}

// Do takes a step that changes the state.
func (w *Way[S]) Do(name string, change func(n *S)) { Do(w.S, w.Next, name, change) }

// Try takes a step if change reports that it can be taken.
func (w *Way[S]) Try(name string, change func(n *S) bool) { Try(w.S, w.Next, name, change) }
