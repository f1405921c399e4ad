// Command transfer moves money between two accounts that several processes use. It locks both accounts
// at once, or neither, so that transfers in opposite directions do not deadlock. Accounts are files in
// a shared directory, each with a number.
//
//	REDLOCK_MASTERS=a:6379,b:6379,c:6379 transfer -dir /srv/accounts -from alice -to bob -amount 10
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock"
)

func main() {
	masters := flag.String("masters", os.Getenv("REDLOCK_MASTERS"), "the Redis masters, comma separated; default $REDLOCK_MASTERS")
	dir := flag.String("dir", ".", "the `directory` of the accounts")
	from := flag.String("from", "", "the `account` to take from")
	to := flag.String("to", "", "the `account` to give to")
	amount := flag.Int("amount", 0, "how much")
	flag.Parse()

	client, err := redlock.Open(strings.Split(*masters, ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	err = Transfer(context.Background(), client, Accounts(*dir), *from, *to, *amount)
	if err := client.Close(); err != nil {
		log.Print(err)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// ErrInsufficient is the error of a transfer of more than there is.
var ErrInsufficient = errors.New("transfer: the account has less than that")

// Transfer moves an amount from one account to another. While it works, it holds the locks of both, so the
// order of the two does not matter. If they are the same account, it holds one lock.
func Transfer(ctx context.Context, client *redlock.Client, accounts Accounts, from, to string, amount int) error {
	return client.Locker("account/"+from, "account/"+to).Do(ctx, func(ctx context.Context) error {
		left, err := accounts.Read(from)
		if err != nil {
			return err
		}
		if amount < 0 || left < amount {
			return ErrInsufficient
		}
		if err := accounts.Write(from, left-amount); err != nil {
			return err
		}
		// The second account is read only now: it may be the first one.
		had, err := accounts.Read(to)
		if err != nil {
			return errors.Join(err, accounts.Write(from, left))
		}
		// If the lease ended here, another process could change the account between the two writes.
		// A database should do both in one transaction that checks the fence: see examples/fencing.
		if err := ctx.Err(); err != nil {
			return errors.Join(err, accounts.Write(from, left))
		}
		return accounts.Write(to, had+amount)
	})
}

// Accounts is a directory with a file for each account.
type Accounts string

// Read returns what an account has.
func (a Accounts) Read(name string) (int, error) {
	text, err := os.ReadFile(filepath.Join(string(a), filepath.Base(name)))
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("transfer: account %q: %w", name, err)
	}
	return n, nil
}

// Write sets what an account has.
func (a Accounts) Write(name string, n int) error {
	return os.WriteFile(filepath.Join(string(a), filepath.Base(name)), []byte(strconv.Itoa(n)+"\n"), 0o600)
}
