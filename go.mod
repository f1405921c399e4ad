module github.com/redlock-go/redlock

go 1.25.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/cenkalti/backoff/v4 v4.3.0
	github.com/gomodule/redigo v1.9.3
	github.com/urfave/cli/v3 v3.14.0
	github.com/yuin/gopher-lua v1.1.1
)
