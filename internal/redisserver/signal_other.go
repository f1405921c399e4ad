//go:build !unix

package redisserver

import "errors"

func freeze(*process) error { return errors.ErrUnsupported }
func thaw(*process) error   { return nil }
