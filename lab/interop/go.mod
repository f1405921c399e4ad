module github.com/redlock-go/redlock/lab/interop

go 1.26.0

replace github.com/redlock-go/redlock => ../..

require (
	github.com/go-redsync/redsync/v4 v4.18.0
	github.com/gomodule/redigo v1.9.3
	github.com/redlock-go/redlock v0.0.0-00010101000000-000000000000
)

require github.com/cenkalti/backoff/v4 v4.3.0 // indirect
