package wire

import (
	"strings"
	"testing"
)

func TestAnOwnerIsReadFromTokensOfOurFormOnly(t *testing.T) {
	const random = "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT"
	for _, row := range []struct{ name, token, want string }{
		{"ours", random + "@web-1/4711", "web-1/4711"},
		{"a sign in the owner", random + "@a@b", "a@b"},
		{"the longest", random + "@" + strings.Repeat("x", OwnerMost), strings.Repeat("x", OwnerMost)},
		{"of a lock that may be kept", KeptBy(random, random+"@web-1/4711"), "web-1/4711"},
		{"of a lock that may be kept, without an owner", KeptBy(random, random), ""},
		{"two clients", KeptBy(random, KeptBy(random, random+"@web")), ""},
		{"no owner", random, ""},
		{"an empty owner", random + "@", ""},
		{"too long", random + "@" + strings.Repeat("x", OwnerMost+1), ""},
		{"a mail address", "anna@example.org", ""},
		{"a random part of another form", "0f0e{0d0c0b0a0908}@web", ""},
		{"an escape", random + "@\x1b[31mweb", ""},
		{"a line break", random + "@web\nroot", ""},
		{"a space", random + "@web 1", ""},
		{"not UTF-8", random + "@web\xff", ""},
		{"right to left", random + "@web\u202e", ""},
		{"nothing", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := OwnerOf(row.token); got != row.want {
				t.Errorf("OwnerOf(%q) = %q, want %q", row.token, got, row.want)
			}
		})
	}
}

func TestATokenSaysWhetherItsLockMayBeKept(t *testing.T) {
	const random = "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT"
	for token, want := range map[string]bool{
		KeptBy(random, random+"@web-1/4711"): true,
		KeptBy(random, random):               true,
		random + "@web~1/4711":               false, // the owner has the sign
		random:                               false,
		random + "~":                         false,
		"short~" + random:                    false,
		random + "~\x1b[31m":                 false,
		"":                                   false,
	} {
		if got := (Holder{Token: token}).MayBeKept(); got != want {
			t.Errorf("MayBeKept(%q) = %t, want %t", token, got, want)
		}
	}
}

func TestATokenOfCostsOneAllocation(t *testing.T) {
	random := []byte("Q7wq2Jm0cX9_-aZbYcXdWeVfUgT")
	if n := testing.AllocsPerRun(100, func() { _ = withOwner(random, "web-1/4711") }); n > 1 {
		t.Errorf("withOwner allocates %v times, want once", n)
	}
}

func TestAClientsIDSaysHowManyMastersItHas(t *testing.T) {
	random := []byte("Q7wq2Jm0cX9_-aZbYcXdWeVfUgT")
	for _, owner := range []string{"", "web-1/4711", "a@b"} {
		for masters := 1; masters <= 64; masters++ {
			id := NewID(masters, owner)
			if got := MastersOf(id); got != masters {
				t.Errorf("MastersOf(%q) = %d, want %d", id, got, masters)
			}
			if got := OwnerOf(id); got != owner {
				t.Errorf("OwnerOf(%q) = %q, want %q", id, got, owner)
			}
		}
	}
	for _, id := range []string{
		"", "A", "@", "doctor-x",
		string(random), string(random) + "@web-1/4711", // without a number
		string(random) + "CC@web", string(random) + "~@web", string(random[1:]) + "{C@web",
	} {
		if got := MastersOf(id); got != 0 {
			t.Errorf("MastersOf(%q) = %d, want 0", id, got)
		}
	}
}
