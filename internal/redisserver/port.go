package redisserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Servers use ports below those that kernels assign to outgoing connections (from 32768 on Linux). While a
// server is dead, an outgoing connection could take a port from that range, and Restart would fail.
const firstPort, endPort = 20000, 32000

// freePort returns a port that is free now. Another process may take it a moment later, so the caller must be
// ready to try another port.
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
