package explore

// A Way calls back for the steps from a state, each of which a text describes.
type Way[S any] struct {
	S    *S              // the state, which is not changed
	Next func(string, S) // is called with each step, and the state behind it
}

// Do takes a step that changes the state.
func (w *Way[S]) Do(name string, change func(n *S)) {
	n := *w.S
	change(&n)
	w.Next(name, n)
}

// Try takes a step if change reports that it can be taken.
func (w *Way[S]) Try(name string, change func(n *S) bool) {
	n := *w.S
	if change(&n) {
		w.Next(name, n)
	}
}
