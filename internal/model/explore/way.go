package explore

// A Way calls back for the steps from a state, each of which a text describes.
type Way[S any] struct {
	S    *S // is not changed
	Next func(string, S)
}

// Do takes a step that changes the state.
func (w *Way[S]) Do(name string, change func(n *S)) {
	n := *w.S
	change(&n)
	w.Next(name, n)
}
