package redisserver

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
)

// Servers use ports below those that kernels assign to outgoing connections (from 32768 on Linux). While a
// server is dead, an outgoing connection could take a port from that range, and Restart would fail.
const firstPort, endPort = 20000, 32000

// freePort returns a port that is free now, and reserves it until the Closer is closed: see reserve. A process
// without servers of this package may take it a moment later, so the caller must be ready to try another port.
func freePort() (int, io.Closer, error) {
	var errs []error
	for range 20 {
		port := firstPort + rand.IntN(endPort-firstPort)
		reserved, err := reserve(port)
		if err == nil {
			var l net.Listener
			if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
				l.Close()
				return port, reserved, nil
			}
			reserved.Close()
		}
		errs = append(errs, err)
	}
	return 0, nil, fmt.Errorf("redisserver: no free port: %w", errors.Join(errs...))
}
