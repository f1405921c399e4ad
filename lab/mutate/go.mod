module github.com/redlock-go/redlock/lab/mutate

go 1.26.0

replace github.com/redlock-go/redlock => ../..

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/gomodule/redigo v1.9.3
	github.com/redlock-go/redlock v0.0.0-00010101000000-000000000000
)

require github.com/yuin/gopher-lua v1.1.1 // indirect
