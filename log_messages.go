package redlock

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
)

// Messages about masters. The message is the same for one master and for many.
const (
	msgDown        = "redlock: masters are down"
	msgRefused     = "redlock: masters must not vote"
	msgPassword    = "redlock: masters reject the user or the password"
	msgNoPassword  = "redlock: masters require a password"
	msgRights      = "redlock: masters deny the user a right"
	msgTLS         = "redlock: TLS with masters fails"
	msgMoment      = "redlock: masters were down for a moment"
	msgUp          = "redlock: masters are up again"
	msgQuarantined = "redlock: masters are in quarantine, and do not vote"
	msgHaveToWait  = msgQuarantined + ": locks have to wait"
	msgReleased    = "redlock: masters vote again: their quarantine is over"
	msgWakes       = "redlock: masters do not wake waiters"
	msgMemory      = "redlock: masters grant no locks: their memory is full"
	msgGuard       = "redlock: restarts of masters may go unnoticed"
	msgMaxTTL      = "redlock: another client has declared a larger MaxTTL, so quarantines last longer: give every client the same"
	msgRaising     = "redlock: this Client raises the MaxTTL of the masters: from now on all locks have to wait for it, and 2s, when a majority of the masters restarts"
	hintMaxTTL     = "to lower it, stop all clients, and then: redlock doctor --adopt --max-ttl "
)

// topicOf returns the topic of a message: one of the messages that share a limit on how often they are
// written.
func topicOf(msg string) string {
	switch msg {
	case msgQuarantined, msgWakes, msgMemory, msgGuard:
		return msg
	case msgUp, msgReleased:
		return msgUp
	}
	return msgDown
}

// badMessage returns the message for a master that is down or refused.
func badMessage(s MasterStatus) string {
	text := s.Err.Error()
	switch {
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "invalid password"):
		return msgPassword
	case strings.Contains(text, "NOAUTH"):
		return msgNoPassword
	case strings.Contains(text, "NOPERM"):
		return msgRights
	case isTLS(s.Err):
		return msgTLS
	case s.State == MasterRefused:
		return msgRefused
	}
	return msgDown
}

// isTLS reports whether err is a failure of TLS, not of the network.
func isTLS(err error) bool {
	var (
		alert     tls.AlertError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
	)
	return errors.As(err, &alert) || errors.As(err, &verify) || errors.As(err, &authority) ||
		strings.Contains(err.Error(), "tls: ") // most errors of package tls have no type
}

func isBad(s MasterState) bool { return s == MasterDown || s == MasterRefused }
