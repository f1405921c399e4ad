package redisserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports to choose from lie below those that kernels give to outgoing
// connections (from 32768 on Linux). A port from up there could be an outgoing
// connection's while its server is dead, and Restart would fail.
const firstPort, endPort = 20000, 32000

// freePort returns a port that nobody listens on. Somebody may, a moment later:
// whoever uses it has to be ready to try another.
func freePort() (int, error) {
	var errs []error
	for range 20 {
		port := firstPort + rand.IntN(endPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		errs = append(errs, err)
	}
	return 0, fmt.Errorf("redisserver: no free port: %w", errors.Join(errs...))
}
