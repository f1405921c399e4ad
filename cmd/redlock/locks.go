package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/wire"
)

const (
	scanPage = 1000 // keys that one SCAN visits
	scanMost = 1000 // pages that are scanned
)

// A lockKey is a key that may be a lock.
type lockKey struct {
	name string
	ms   int64 // its PTTL
	text bool  // it is a string, as locks are
}

// findLock returns a key that may be a lock, and when it expires. It scans a number of pages at most.
func findLock(conn redis.Conn, prefix string, pages int) (key, left string, err error) {
	err = scanLocks(conn, prefix, pages, func(found []lockKey) (more bool) {
		if len(found) > 0 {
			key, left = found[0].name, expires(found[0].ms)
		}
		return key == ""
	})
	return key, left, err
}

// findLocks returns the names of all keys that may be locks. It scans a number of pages at most.
func findLocks(conn redis.Conn, prefix string, pages int) (names []string, err error) {
	err = scanLocks(conn, prefix, pages, func(found []lockKey) (more bool) {
		for _, k := range found {
			if k.text {
				names = append(names, k.name)
			}
		}
		return true
	})
	return names, err
}

// errTooManyKeys says that not all keys were checked.
var errTooManyKeys = errors.New("not all were checked")

// scanLocks calls visit with the keys of each page that may be locks, until it reports false. With a
// prefix, any key under it may be one. Without a prefix, the database may hold other data: then a lock
// is a string with an expiry and a value that looks like a token.
func scanLocks(conn redis.Conn, prefix string, pages int, visit func([]lockKey) (more bool)) error {
	cursor := "0"
	for range pages {
		reply, err := redis.Values(conn.Do("SCAN", cursor, "MATCH", globEscape(prefix)+"*", "COUNT", scanPage))
		if err != nil {
			return fmt.Errorf("SCAN: %w", err)
		}
		var keys []string
		if _, err := redis.Scan(reply, &cursor, &keys); err != nil {
			return fmt.Errorf("SCAN: %w", err)
		}
		found, err := locksAmong(conn, prefix, keys)
		if err != nil {
			return err
		}
		if !visit(found) || cursor == "0" {
			return nil
		}
	}
	return fmt.Errorf("it has more than %d keys, and %w", pages*scanPage, errTooManyKeys)
}

// token matches what Redlocks of other languages write: at least 64 random bits in base64, without
// spaces, quotes and brackets.
var token = regexp.MustCompile(`^[A-Za-z0-9+/=_:.-]{11,128}$`)

// looksLikeToken reports whether a value may be a token, with or without an owner.
func looksLikeToken(value string) bool {
	return token.MatchString(value) || wire.OwnerOf(value) != ""
}

// tokenMost is how many bytes of a value are read, to judge it by looksLikeToken.
const tokenMost = 256

// locksAmong returns the keys that may be locks.
func locksAmong(conn redis.Conn, prefix string, keys []string) (found []lockKey, err error) {
	keys = slices.DeleteFunc(keys, func(key string) bool {
		// Not under the prefix, or a key of redlock that is no lock.
		return !strings.HasPrefix(key, prefix) || strings.HasPrefix(key, "redlock:") || strings.HasPrefix(key, prefix+trialName)
	})
	for _, key := range keys {
		if err := errors.Join(conn.Send("PTTL", key), conn.Send("GETRANGE", key, 0, tokenMost)); err != nil {
			return nil, err
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	for _, key := range keys {
		ms, ttlErr := redis.Int64(conn.Receive())
		value, valueErr := redis.String(conn.Receive())
		if conn.Err() != nil {
			return nil, conn.Err()
		}
		if ttlErr != nil {
			return nil, fmt.Errorf("PTTL: %w", ttlErr)
		}
		if valueErr != nil && !strings.HasPrefix(valueErr.Error(), "WRONGTYPE") {
			return nil, fmt.Errorf("GETRANGE: %w", valueErr)
		}
		if ms != -2 && (prefix != "" || ms >= 0 && looksLikeToken(value)) {
			found = append(found, lockKey{key, ms, valueErr == nil})
		}
	}
	return found, nil
}
