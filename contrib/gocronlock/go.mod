module github.com/redlock-go/redlock/contrib/gocronlock

go 1.26.0

replace github.com/redlock-go/redlock => ../..

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/redlock-go/redlock v0.0.0-00010101000000-000000000000
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/gomodule/redigo v1.9.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
)
