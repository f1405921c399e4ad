package reasons

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/wire"
)

// Reasons for a vote that was not granted.
var (
	ErrRefused  = errors.New("held by another")
	ErrNoAnswer = errors.New("no answer yet")
	ErrUnasked  = errors.New("not asked, since another goroutine is asking")

	errMissing   = errors.New("the key is gone")
	errNotOurs   = errors.New("the key is somebody else's")
	errUnawaited = errors.New("not waited for")
	errOvertaken = errors.New("it has given a higher fence")
)

// OfVote returns the reason why a vote was not granted in a round. settled says whether the votes that are in
// have settled the round.
func OfVote(v quorum.Vote, settled bool) error {
	if !v.In && settled {
		return errUnawaited
	}
	if !v.In {
		return ErrNoAnswer
	}
	return cmp.Or(outcomes[v.Outcome], v.Err)
}

// outcomes are the reasons that an outcome says.
var outcomes = map[wire.Outcome]error{wire.Taken: ErrRefused, wire.Missing: errMissing, wire.OtherToken: errNotOurs, wire.Overtaken: errOvertaken}

// Unanswered reports whether err is the reason of a vote that has not come. The master may still grant it.
func Unanswered(err error) bool { return errors.Is(err, ErrNoAnswer) || errors.Is(err, errUnawaited) }

// IsDenied reports whether err says that the master's user lacks a right.
func IsDenied(err error) bool {
	return redisconn.IsReply(err) && (strings.Contains(err.Error(), "NOPERM") || strings.Contains(err.Error(), scriptDenied))
}

// Faults returns the errors of the failures that are a fault of the master.
func Faults(failures []Failure) (errs []error) {
	for _, f := range failures {
		if f.Err != ErrRefused && f.Err != ErrUnasked && f.Err != ErrNoAnswer && f.Err != errUnawaited {
			errs = append(errs, f.Err)
		}
	}
	return errs
}

// Readers returns how many readers there are, and their owners as far as they are known. An owner that is not known is empty.
func Readers(owners []string) string {
	text := strconv.Itoa(len(owners)) + " readers"
	switch len(owners) {
	case 0:
		return ""
	case 1:
		text = "1 reader"
	}
	known := slices.DeleteFunc(slices.Clone(owners), func(owner string) bool { return owner == "" })
	if len(known) == 0 {
		return text
	}
	return text + " (" + Names(known, len(owners)) + ")"
}
