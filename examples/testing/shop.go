// Package shop shows how to test code that uses redlock: with embedded masters, faults, and virtual time.
package shop

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/redlock-go/redlock"
)

// A Shop sells what is in stock. Several processes share the stock.
type Shop struct {
	Locks *redlock.Client // of all processes on the same masters
	Stock Stock           // shared by all processes
}

// A Stock is where the number of pieces is.
type Stock interface {
	Pieces(ctx context.Context) (int, error)
	SetPieces(ctx context.Context, n int) error
}

// ErrSoldOut says that nothing is left.
var ErrSoldOut = errors.New("sold out")

// Sell sells one piece.
func (s *Shop) Sell(ctx context.Context) error {
	return s.Locks.Locker("stock").Do(ctx, func(ctx context.Context) error {
		n, err := s.Stock.Pieces(ctx)
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrSoldOut
		}
		return s.Stock.SetPieces(ctx, n-1)
	})
}

// Open opens a Shop as main does, with the masters of the environment.
func Open(stock Stock) (*Shop, error) {
	locks, err := redlock.Open(strings.Split(os.Getenv("REDLOCK_MASTERS"), ","), nil)
	if err != nil {
		return nil, err
	}
	return &Shop{Locks: locks, Stock: stock}, nil
}
