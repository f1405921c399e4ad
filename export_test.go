package redlock

// NewBackOff returns the default schedule between attempts.
func NewBackOff() BackOff { return newBackOff() }
