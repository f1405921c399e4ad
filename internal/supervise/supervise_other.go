//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package supervise

// Supported says whether there are supervisors here. On this system redlock does not reach the processes that others have started.
const Supported = false

func ignoreSignals() {}

func kill(int) {}
