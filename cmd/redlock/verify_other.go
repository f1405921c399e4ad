//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package main

import (
	"errors"
	"os"
)

// canStop says whether processes can be stopped here.
const canStop = false

func stopProcess(*os.Process) error     { return errors.ErrUnsupported }
func continueProcess(*os.Process) error { return errors.ErrUnsupported }
