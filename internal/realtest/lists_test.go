package realtest_test

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// Clients need no further right for it. Somebody who looks at all messages is no client.
func TestClientsSeeThatOthersHaveAnotherNumberOfMasters(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	monitor, err := redis.Dial("tcp", servers[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer monitor.Close()
	if _, err := monitor.Do("PSUBSCRIBE", "*"); err != nil {
		t.Fatal(err)
	}
	var local []string
	for _, addr := range addresses(servers) {
		local = append(local, strings.Replace(addr, "127.0.0.1", "localhost", 1))
	}
	names := open(t, nil, local...)
	asked := func() bool { return calls(t, servers[0], "pubsub|numsub") >= 2 }
	leastRights := []any{"+@all", "-@admin", "-pubsub", "+pubsub|numsub", "~*", "resetchannels", "&redlock:wake:*"}
	three := openAs(t, servers, leastRights...)
	eventually(t, "both clients have asked", asked)
	for _, c := range []*redlock.Client{names, three} {
		for _, m := range c.Masters() {
			if m.ListErr != nil {
				t.Errorf("%s: ListErr = %v, want none before somebody has another list", m.Name, m.ListErr)
			}
		}
	}
	two := open(t, nil, addresses(servers[1:])...)
	wants := func(c *redlock.Client, texts ...string) {
		t.Helper()
		eventually(t, "ListErr says that others have "+strings.Join(texts, ", "), func() bool {
			for i, m := range c.Masters() {
				if (m.ListErr == nil) != (texts[i] == "") || m.ListErr != nil && !strings.HasPrefix(m.ListErr.Error(), texts[i]) {
					return false
				}
			}
			return true
		})
	}
	wants(two, "other clients have another number of masters, 3, and this one has 2: ", "other clients have another number of masters, 3, and this one has 2: ")
	another := openAs(t, servers, leastRights...)
	wants(another, "", "other clients have another number of masters, 2, and this one has 3: ", "other clients have another number of masters, 2, and this one has 3: ")
}
