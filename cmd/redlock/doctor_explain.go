package main

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/remedy"
)

// failureOf returns advice about a master that cannot be examined, if there is some, and why it
// cannot be examined.
func failureOf(err error) (advice string, why error) {
	what, advice := explain(err)
	if errors.As(err, new(redis.Error)) {
		return advice, fmt.Errorf("access denied: %s", what)
	}
	return advice, fmt.Errorf("not reachable: %s", what)
}

// plain returns an error about a master in one short line.
func plain(err error) error {
	what, _ := explain(err)
	return errors.New(what)
}

// explain returns an error about a master in one short line, and advice if there is some: see package remedy.
func explain(err error) (what, advice string) {
	if redisconn.IsTimeout(err) {
		return remedy.Explain(&remedy.LateError{Within: doctorPatience})
	}
	return remedy.Explain(err)
}
