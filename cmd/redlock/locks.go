package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/wire"
)

const (
	scanPage = 1000 // keys that one SCAN visits
	scanMost = 1000 // pages that are scanned
)

// A lockKey is a key that may be a lock, or a semaphore of which somebody holds permits.
type lockKey struct {
	name      string
	ms        int64 // its PTTL; of a semaphore, how long its last permit lasts
	text      bool  // it is a string, as locks are
	semaphore bool
}

// findLock returns a key that may be a lock, and when it expires. It scans a number of pages at most.
func findLock(conn redis.Conn, prefix string, pages int) (key, left string, err error) {
	err = scanLocks(conn, prefix, pages, func(found []lockKey) (more bool) {
		if len(found) > 0 {
			key, left = found[0].name, expires(found[0].ms)
			if found[0].semaphore {
				key = slotsPrefix + key
			}
		}
		return key == ""
	})
	return key, left, err
}

// findLocks returns the names of all keys that may be locks or semaphores. It scans a number of pages at most.
func findLocks(conn redis.Conn, prefix string, pages int) (names []string, err error) {
	err = scanLocks(conn, prefix, pages, func(found []lockKey) (more bool) {
		for _, k := range found {
			if k.text || k.semaphore {
				names = append(names, k.name)
			}
		}
		return true
	})
	return names, err
}

var (
	// errTooManyKeys says that not all keys were checked.
	errTooManyKeys = errors.New("not all were checked")
	// errNoSemaphores says that the user may not read semaphores.
	errNoSemaphores = errors.New("semaphores cannot be read")
)

// scanLocks calls visit with the keys of each page that may be locks or semaphores, until it reports false. With a
// prefix, any key under it may be one. Without a prefix, the database may hold other data: then a lock
// is a string with an expiry and a value that looks like a token.
func scanLocks(conn redis.Conn, prefix string, pages int, visit func([]lockKey) (more bool)) error {
	cursor, unread := "0", error(nil)
	for range pages {
		reply, err := redis.Values(conn.Do("SCAN", cursor, "MATCH", "*"+globEscape(prefix)+"*", "COUNT", scanPage))
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
		semaphores, err := semaphoresAmong(conn, prefix, keys)
		if err != nil && conn.Err() != nil {
			return err
		} else if err != nil {
			unread = fmt.Errorf("%w: %w", errNoSemaphores, err)
		}
		found = append(found, semaphores...)
		if !visit(found) || cursor == "0" {
			return unread
		}
	}
	return fmt.Errorf("it has more than %d keys, and %w", pages*scanPage, errTooManyKeys)
}

// inTokens are the bytes of the tokens that Redlocks of other languages write: base64, without spaces, quotes and brackets.
const inTokens = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_:.-"

// looksLikeToken reports whether a value may be a token, with or without an owner. A token has at least 64 random bits.
func looksLikeToken(value string) bool {
	return len(value) >= 11 && len(value) <= 128 && strings.Trim(value, inTokens) == "" || wire.OwnerOf(value) != ""
}

// tokenMost is how many bytes of a value are read, to judge it by looksLikeToken.
const tokenMost = 256

// locksAmong returns the keys that may be locks.
func locksAmong(conn redis.Conn, prefix string, keys []string) (found []lockKey, err error) {
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
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
			found = append(found, lockKey{name: key, ms: ms, text: valueErr == nil})
		}
	}
	return found, nil
}

const (
	slotsPrefix = "redlock:slots:" // of the key of a semaphore's record; the name follows
	untilPrefix = "redlock:until:" // of the key that tells when its slots expire
)

// semaphoresAmong returns the semaphores whose permits somebody holds. Their records remain for a while after the last permit.
func semaphoresAmong(conn redis.Conn, prefix string, keys []string) (found []lockKey, err error) {
	var names []string
	for _, key := range keys {
		if name, ok := strings.CutPrefix(key, slotsPrefix); ok && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	for _, name := range names {
		if err := conn.Send("ZRANGE", untilPrefix+name, -1, -1, "WITHSCORES"); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(conn.Send("TIME"), conn.Flush()); err != nil {
		return nil, err
	}
	expiries := make([]float64, len(names))
	for i := range names { // all replies are received, since the connection is used again
		last, why := redis.Strings(conn.Receive())
		if why != nil && !strings.HasPrefix(why.Error(), "WRONGTYPE") {
			err = cmp.Or(err, fmt.Errorf("ZRANGE: %w", why))
		} else if len(last) == 2 {
			expiries[i], _ = strconv.ParseFloat(last[1], 64)
		}
	}
	now, why := redis.Int64s(conn.Receive())
	if why != nil || len(now) != 2 {
		err = cmp.Or(err, why, errors.New("an unexpected reply to TIME"))
	}
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if ms := expiries[i] - float64(now[0]*1000+now[1]/1000); ms > 0 {
			found = append(found, lockKey{name: name, ms: int64(min(ms, 1<<53)), semaphore: true})
		}
	}
	return found, nil
}
