package peers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const rueidisPrefix = "rueidislock"

// Rueidislock returns a Locker of several independent masters. It waits for one of them for nodeTimeout at most. rueidislock knows one
// client, so it has a key for each master, and its client sends each key to its master.
func Rueidislock(addrs []string, ttl, nodeTimeout time.Duration) (rueidislock.Locker, error) {
	return rueidislock.NewLocker(rueidislock.LockerOption{
		ClientBuilder: func(option rueidis.ClientOption) (rueidis.Client, error) {
			return newRouter(option, addrs)
		},
		ClientOption:   rueidis.ClientOption{InitAddress: addrs[:1]},
		KeyPrefix:      rueidisPrefix,
		KeyValidity:    ttl,
		TryNextAfter:   nodeTimeout,
		KeyMajority:    int32(len(addrs)/2 + 1),
		NoLoopTracking: true,
	})
}

// RueidisKey returns the key of a name on a master.
func RueidisKey(name string, master int) string {
	return fmt.Sprintf("%s:%d:%s", rueidisPrefix, master, name)
}

// A router is a rueidis client of several masters: see RueidisKey.
type router struct {
	rueidis.Client // of master 0; its Builder makes the commands
	masters        []rueidis.Client
}

func newRouter(option rueidis.ClientOption, addrs []string) (rueidis.Client, error) {
	r := &router{}
	for _, addr := range addrs {
		option.InitAddress = []string{addr}
		c, err := rueidis.NewClient(option)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.masters = append(r.masters, c)
	}
	r.Client = r.masters[0]
	return r, nil
}

// Do sends a command to the master that its key names. All that rueidislock
// sends are scripts of one key.
func (r *router) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands() // EVALSHA sha 1 key …
	if len(words) < 4 {
		return rueidis.NewErrorResult(fmt.Errorf("router: no key in %q", words))
	}
	i, err := masterOf(words[3])
	if err != nil || i >= len(r.masters) {
		return rueidis.NewErrorResult(fmt.Errorf("router: no master for %q: %w", words[3], err))
	}
	return r.masters[i].Do(ctx, cmd)
}

func (r *router) Close() {
	for _, c := range r.masters {
		c.Close()
	}
}

func masterOf(key string) (int, error) {
	parts := strings.SplitN(key, ":", 3)
	if len(parts) < 3 {
		return 0, errors.New("not a key of rueidislock")
	}
	return strconv.Atoi(parts[1])
}
