package migration

import (
	"net/url"
	"strconv"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// fromGoRedis returns the URL of the server of go-redis' options. Their TLSConfig becomes
// redlock.Options.TLSConfig.
func fromGoRedis(o *redis.Options) string {
	return masterURL(o.Network, o.Addr, o.Username, o.Password, o.DB, o.TLSConfig != nil)
}

// fromRueidis returns the URLs of the servers of rueidis' options. Each must be a server of its own, not
// a node of a cluster. Their TLSConfig becomes redlock.Options.TLSConfig.
func fromRueidis(o rueidis.ClientOption) []string {
	var urls []string
	for _, addr := range o.InitAddress {
		urls = append(urls, masterURL("tcp", addr, o.Username, o.Password, o.SelectDB, o.TLSConfig != nil))
	}
	return urls
}

func masterURL(network, addr, user, password string, db int, tls bool) string {
	u := url.URL{Scheme: "redis", Host: addr, Path: "/" + strconv.Itoa(db)}
	switch {
	case network == "unix":
		u = url.URL{Scheme: "unix", Path: addr, RawQuery: url.Values{"db": {strconv.Itoa(db)}}.Encode()}
	case tls:
		u.Scheme = "rediss"
	}
	if user != "" || password != "" {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}
