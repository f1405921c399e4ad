//go:build !(linux && (amd64 || arm64))

package redisconn

import "net"

// Direct returns conn: on this system it would not help, or was not measured.
func Direct(conn net.Conn) net.Conn { return conn }
