package certmagiclock_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/contrib/certmagiclock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

// An issuer signs certificates itself. It counts them, and takes a minute for each.
type issuer struct {
	issued atomic.Int64
	inside atomic.Int64 // servers that obtain a certificate now
	most   atomic.Int64
}

func (i *issuer) IssuerKey() string { return "test" }

func (i *issuer) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	i.most.Store(max(i.most.Load(), i.inside.Add(1)))
	defer i.inside.Add(-1)
	time.Sleep(time.Minute)
	i.issued.Add(1)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(i.issued.Load()), DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// A lockless storage is a directory without CertMagic's locks.
type lockless struct{ certmagic.Storage }

func (lockless) Lock(context.Context, string) error   { return nil }
func (lockless) Unlock(context.Context, string) error { return nil }

// obtain makes three servers with a common directory obtain the same certificate at once.
func obtain(t *testing.T, is *issuer, storage func(certmagic.Storage) certmagic.Storage) {
	t.Helper()
	dir := &certmagic.FileStorage{Path: t.TempDir()}
	done := make(chan error)
	for range 3 {
		cache := certmagic.NewCache(certmagic.CacheOptions{
			GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return nil, errors.New("unused") },
			Logger:           zap.NewNop(),
		})
		t.Cleanup(cache.Stop)
		cfg := certmagic.New(cache, certmagic.Config{Storage: storage(dir), Issuers: []certmagic.Issuer{is}, Logger: zap.NewNop()})
		go func() { done <- cfg.ObtainCertAsync(t.Context(), "shop.example") }()
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestOfSeveralServersOneObtainsTheCertificate(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters, is := redlocktest.StartN(t, 3), &issuer{}
		obtain(t, is, func(dir certmagic.Storage) certmagic.Storage {
			return certmagiclock.New(lockless{dir}, masters.Open(nil), nil)
		})
		if is.issued.Load() != 1 || is.most.Load() != 1 {
			t.Errorf("%d certificates were issued, %d at once, want 1", is.issued.Load(), is.most.Load())
		}
	})
}

// Without the locks each server obtains a certificate: the test above sees what the locks do.
func TestWithoutLocksEachServerObtainsTheCertificate(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		is := &issuer{}
		obtain(t, is, func(dir certmagic.Storage) certmagic.Storage { return lockless{dir} })
		if is.issued.Load() != 3 {
			t.Errorf("%d certificates were issued, want 3", is.issued.Load())
		}
	})
}

func TestTheLocksAreThoseOfCertMagicsInterfaces(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters, ctx := redlocktest.StartN(t, 3), t.Context()
		dir := &certmagic.FileStorage{Path: t.TempDir()}
		a, b := certmagiclock.New(dir, masters.Open(nil), nil), certmagiclock.New(dir, masters.Open(nil), nil)
		if err := a.Lock(ctx, "n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // for the master that the quorum did not need
		if token := masters.Get("certmagic:n")[0]; token == "" {
			t.Error("no key certmagic:n")
		}
		if ok, err := b.TryLock(ctx, "n"); ok || err != nil {
			t.Errorf("TryLock of a lock that is held = %t, %v, want false", ok, err)
		}
		brief, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := b.Lock(brief, "n"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock = %v, want that the context has ended", err)
		}
		time.Sleep(61 * time.Minute) // longer than the default of MaxHold
		if err := a.RenewLockLease(ctx, "n", time.Minute); err != nil {
			t.Errorf("RenewLockLease = %v", err)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := a.Unlock(ended, "n"); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Unlock = %v", err)
		}
		if err := a.Unlock(ctx, "n"); !errors.Is(err, redlock.ErrNotHeld) {
			t.Errorf("a second Unlock = %v, want ErrNotHeld", err)
		}
		if err := a.RenewLockLease(ctx, "n", time.Minute); !errors.Is(err, redlock.ErrNotHeld) {
			t.Errorf("RenewLockLease after Unlock = %v, want ErrNotHeld", err)
		}
		if err := b.Lock(ctx, "n"); err != nil {
			t.Errorf("Lock after the unlock = %v", err)
		}
		for i := range 3 {
			masters.Master(i).Stop()
		}
		time.Sleep(time.Minute)
		if err := b.RenewLockLease(ctx, "n", time.Minute); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("RenewLockLease of a lost lease = %v, want ErrLost", err)
		}
		if err := b.Unlock(ctx, "n"); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Unlock of a lost lease = %v, want ErrLost", err)
		}
		if ok, err := a.TryLock(ctx, "n"); ok || err == nil {
			t.Errorf("TryLock without masters = %t, %v, want an error", ok, err)
		}
	})
}
