package weakmap

import (
	"fmt"
	"runtime"
	"testing"
)

type value struct{ name string }

func TestAMapKeepsWhatIsInUse(t *testing.T) {
	var m Map[value]
	if m.Find("a") != nil || len(m.All()) > 0 {
		t.Error("an empty Map has a value")
	}
	v := m.Of("a", func() *value { return &value{"a"} })
	runtime.GC()
	if again := m.Of("a", func() *value { return &value{"b"} }); again != v || m.Find("a") != v || len(m.All()) != 1 {
		t.Error("a value that is in use has been replaced")
	}
	runtime.KeepAlive(v)
}

// A Map must not grow with the number of keys.
func TestAMapForgetsWhatIsNotInUse(t *testing.T) {
	var m Map[value]
	kept := m.Of("kept", func() *value { return &value{"kept"} })
	for i := range 10_000 {
		key := fmt.Sprint(i)
		m.Of(key, func() *value { return &value{key} })
		if i%100 == 0 {
			runtime.GC()
		}
	}
	runtime.GC()
	if n := len(m.byKey); n > 1000 {
		t.Errorf("there are %d keys, want 1000 at most", n)
	}
	if m.Find("0") != nil {
		t.Error("a value that is not in use is still there")
	}
	if all := m.All(); len(all) != 1 || all[0] != kept {
		t.Errorf("%d values are in use, want 1", len(all))
	}
	runtime.KeepAlive(kept)
}

func TestAValueThatIsPinnedStays(t *testing.T) {
	var m Map[value]
	for _, key := range []string{"a", "b"} {
		m.Pin(key, m.Of(key, func() *value { return &value{key} }))
	}
	m.Unpin("b")
	runtime.GC()
	if v := m.Find("a"); v == nil || v.name != "a" {
		t.Errorf("the pinned value is %v, want a", v)
	}
	if v := m.Find("b"); v != nil {
		t.Errorf("a value that was unpinned stays: %v", *v)
	}
}
