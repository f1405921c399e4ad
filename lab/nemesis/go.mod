module github.com/redlock-go/redlock/lab/nemesis

go 1.26.0

replace github.com/redlock-go/redlock => ../..

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/go-redsync/redsync/v4 v4.18.0
	github.com/gomodule/redigo v1.9.3
	github.com/redis/rueidis v1.0.78
	github.com/redlock-go/redlock v0.0.0-00010101000000-000000000000
	golang.org/x/sys v0.48.0
)

require github.com/cenkalti/backoff/v4 v4.3.0 // indirect
