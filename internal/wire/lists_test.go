package wire

import (
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// listReplies returns the reply to ListCensus if one client has each of these numbers of masters.
func listReplies(lists ...int) []any {
	var counts []any
	for n := range MastersMost {
		count := int64(0)
		for _, list := range lists {
			if list == n+1 {
				count++
			}
		}
		counts = append(counts, []byte(ListChannel(n+1)), count)
	}
	return []any{counts}
}

func TestDecodeListsReturnsWhatTheReplySays(t *testing.T) {
	for _, row := range []struct {
		lists []int
		want  string
	}{
		{nil, "[]"},
		{[]int{3, 3, 3}, "[]"},
		{[]int{3, 5}, "[5]"},
		{[]int{1, 3, 64}, "[1 64]"},
		{[]int{2, 2, 4}, "[2 4]"},
	} {
		if got, ok := DecodeLists(listReplies(row.lists...), 3); !ok || fmt.Sprint(got) != row.want {
			t.Errorf("clients with %v masters: DecodeLists = %v, %t, want %s", row.lists, got, ok, row.want)
		}
	}
	odd, negative := listReplies(5), listReplies()
	odd[0].([]any)[1] = []byte("many")
	negative[0].([]any)[1] = int64(-1)
	for _, replies := range [][]any{nil, {redis.Error("NOPERM no")}, {int64(1)}, {[]any{}}, {[]any{[]byte(ListChannel(5)), int64(1)}}, odd} {
		if got, ok := DecodeLists(replies, 3); ok || got != nil {
			t.Errorf("DecodeLists of %v = %v, %t, want that it does not say", replies, got, ok)
		}
	}
	if got, ok := DecodeLists(negative, 3); !ok || got != nil {
		t.Errorf("a negative count: DecodeLists = %v, %t, want none", got, ok)
	}
}
