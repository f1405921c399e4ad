package flight

import "testing"

// joinAll has n goroutines join the flight of key, and returns it.
func joinAll(t *testing.T, s *Flights, key string, n int) (f *Flight) {
	t.Helper()
	for want := range n {
		var place int
		if f, place = s.Join(key); place != want {
			t.Fatalf("the place of number %d is %d", want, place)
		}
	}
	return f
}

// served returns how many of those at places 1 to n get a value.
func served(t *testing.T, f *Flight, n int) (got int) {
	t.Helper()
	select {
	case <-f.Landed():
	default:
		t.Fatal("the flight has not landed")
	}
	for place := 1; place <= n; place++ {
		if value, ok := f.Value(place); ok {
			got++
			if string(value) != "x" || got != place {
				t.Errorf("place %d gets %q as number %d", place, value, got)
			}
		}
	}
	return got
}

func TestWhoGetsTheValue(t *testing.T) {
	t.Run("all who have joined before the function began", func(t *testing.T) {
		s := &Flights{}
		f := joinAll(t, s, "a", 2)
		f.Seal()
		s.Join("a")
		f.Depart()
		if later, place := s.Join("a"); later == f || place != 0 {
			t.Error("a goroutine that comes while the function runs joins the flight")
		}
		f.Serve([]byte("x"))
		f.Land()
		if n := served(t, f, 3); n != 2 {
			t.Errorf("%d get the value, want the 2 that have joined", n)
		}
	})
	t.Run("of another client's value: who has joined before the last claim", func(t *testing.T) {
		s := &Flights{}
		f := joinAll(t, s, "a", 2)
		f.Seal()
		s.Join("a")
		f.Seal()
		s.Join("a")
		f.Receive([]byte("x"))
		f.Land()
		if value, taken := f.Received(); !taken || string(value) != "x" {
			t.Errorf("the one that leads gets %q, %v", value, taken)
		}
		if n := served(t, f, 3); n != 2 {
			t.Errorf("%d get the value, want the 2 that had joined before the claim", n)
		}
	})
	t.Run("nobody, if there is none", func(t *testing.T) {
		s := &Flights{}
		f := joinAll(t, s, "a", 3)
		f.Seal()
		f.Land()
		if n := served(t, f, 2); n != 0 {
			t.Errorf("%d get a value, want none", n)
		}
		if later, place := s.Join("a"); later == f || place != 0 {
			t.Error("a flight that has landed can be joined")
		}
	})
}

func TestEachGetsACopyOfTheValue(t *testing.T) {
	s := &Flights{}
	f := joinAll(t, s, "a", 2)
	f.Depart()
	f.Serve([]byte("x"))
	f.Land()
	value, _ := f.Value(1)
	value[0] = 'y'
	if again, _ := f.Value(1); string(again) != "x" {
		t.Errorf("a caller has changed the value of others to %q", again)
	}
}

func TestANewFlightOfAKeyIsLeftByTheOneBefore(t *testing.T) {
	s := &Flights{}
	first := joinAll(t, s, "a", 1)
	first.Depart()
	second := joinAll(t, s, "a", 1)
	first.Land()
	if f, place := s.Join("a"); f != second || place != 1 {
		t.Error("the end of a flight has ended the next one of the key")
	}
}
