package contract_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// openFirst opens a Client of the first n masters, in an order and with names of its own.
func openFirst(t *testing.T, ms *redlocktest.Masters, n int, opts *redlock.Options) *redlock.Client {
	t.Helper()
	pools := ms.Pools()[:n]
	slices.Reverse(pools)
	c, err := redlock.New(pools, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// listErrs returns the text of ListErr at each master; empty for nil.
func listErrs(c *redlock.Client) (texts []string) {
	for _, m := range c.Masters() {
		text := ""
		if m.ListErr != nil {
			text = m.ListErr.Error()
		}
		texts = append(texts, text)
	}
	return texts
}

const otherList = "redlock: other clients have another list of masters"

// otherLists is the text of ListErr of a client with mine masters.
func otherLists(others string, mine int) string {
	return fmt.Sprintf("other clients have another number of masters, %s, and this one has %d: clients with different lists can hold the same lock at once; redlock doctor names them", others, mine)
}

// A client of five masters is started beside one that has three of them.
func TestOtherClientsWithAnotherNumberOfMastersAreLoggedOnce(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var old, new logged
		three := openFirst(t, ms, 3, old.Options())
		time.Sleep(10 * time.Second)
		five := openFirst(t, ms, 5, new.Options())
		time.Sleep(4 * time.Second) // it asks after a second, and the line follows within 3 s
		wrong := otherLists("3", 5)
		if got, want := listErrs(five), []string{"", "", wrong, wrong, wrong}; !slices.Equal(got, want) {
			t.Errorf("the new client: ListErr = %q\nwant %q", got, want)
		}
		new.Want(t, 1, "level=WARN", `masters="master 3, master 4, master 5"`, `why="`+wrong+`"`)

		// The client that was there before notices it within half a minute. Nothing is repeated, not even if connections are lost
		// and further lists are found.
		time.Sleep(30 * time.Second)
		wrong = otherLists("5", 3)
		if got, want := listErrs(three), []string{wrong, wrong, wrong}; !slices.Equal(got, want) {
			t.Errorf("the client that was there before: ListErr = %q\nwant %q", got, want)
		}
		two := openFirst(t, ms, 2, nil)
		for range 5 {
			time.Sleep(time.Minute)
			ms.Master(1).Cut()
		}
		ms.Master(2).Stop()
		time.Sleep(time.Minute)
		ms.Master(2).Start()
		time.Sleep(31 * time.Second)
		both := otherLists("2 or 5", 3)
		if got, want := listErrs(three), []string{wrong, both, both}; !slices.Equal(got, want) {
			t.Errorf("with a third list: ListErr = %q\nwant %q", got, want)
		}
		old.Want(t, 1, `masters="master 1, master 2, master 3"`, `why="`+wrong+`"`)
		old.Want(t, 1, otherList)
		new.Want(t, 1, otherList)

		// When the others have ended, nothing is wrong. Later it is, once more.
		five.Close()
		two.Close()
		time.Sleep(61 * time.Second) // one answer is not believed
		if got := listErrs(three); !slices.Equal(got, []string{"", "", ""}) {
			t.Errorf("the others have ended: ListErr = %q", got)
		}
		openFirst(t, ms, 1, nil)
		time.Sleep(33 * time.Second)
		old.Want(t, 1, `masters="master 3"`, `why="`+otherLists("1", 3)+`"`)
		old.Want(t, 2, otherList)
	})
}

// Names, orders, distances, prefixes and kinds of clients do not matter.
func TestClientsWithAsManyMastersAreNotLogged(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		for _, change := range []func(o *redlock.Options){
			func(o *redlock.Options) {},
			func(o *redlock.Options) { o.Names = []string{"one", "two", "three"} },
			func(o *redlock.Options) { o.Prefix = "other:" },
			func(o *redlock.Options) { o.DisableOwner = true },
			func(o *redlock.Options) { o.DisableWakeups = true },
			func(o *redlock.Options) { o.DisableRestartGuard = true },
		} {
			o := log.Options()
			change(o)
			openFirst(t, ms, 3, o)
			defer ms.Open(log.Options()).Close()
		}
		far := ms.WithDelays(time.Millisecond, 100*time.Millisecond, 50*time.Millisecond).Open(log.Options())
		time.Sleep(2 * time.Minute)
		if got := listErrs(far); !slices.Equal(got, []string{"", "", ""}) {
			t.Errorf("ListErr = %q", got)
		}
		log.Want(t, 0, otherList)
	})
}
