module github.com/redlock-go/redlock/lab

go 1.26.0

replace github.com/redlock-go/redlock => ..

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/anishathalye/porcupine v1.3.1
	github.com/bsm/redislock v0.9.4
	github.com/go-redsync/redsync/v4 v4.18.0
	github.com/gomodule/redigo v1.9.3
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.78
	github.com/redis/rueidis/rueidiscompat v1.0.78
	github.com/redlock-go/redlock v0.0.0-00010101000000-000000000000
	github.com/tetratelabs/wazero v1.12.0
	golang.org/x/sys v0.48.0
)

require (
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
)
