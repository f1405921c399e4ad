// Command tls connects to masters by TLS, with a private authority, a client certificate, and a user that has no
// more rights than it needs.
//
//	redlock doctor --acl --prefix shop: --masters …   # prints the rule; set it on each master, with a password
//
//	REDLOCK_MASTERS=rediss://redlock:PASSWORD@a:6379,rediss://redlock:PASSWORD@b:6379,… \
//		tls -ca ca.pem -cert client.pem -key client-key.pem
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/redlock-go/redlock"
)

func main() {
	ca := flag.String("ca", "", "`file` with the authority that has signed the masters' certificates")
	cert := flag.String("cert", "", "`file` with the client's certificate")
	key := flag.String("key", "", "`file` with its key")
	flag.Parse()
	if err := run(strings.Split(os.Getenv("REDLOCK_MASTERS"), ","), *ca, *cert, *key); err != nil {
		log.Fatal(err)
	}
}

// run does something under a lock.
func run(masters []string, ca, cert, key string) error {
	config, err := configOf(ca, cert, key)
	if err != nil {
		return err
	}
	client, err := redlock.Open(masters, &redlock.Options{
		TLSConfig: config, // the server name is taken from each URL
		Prefix:    "shop:",
	})
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Locker("stock").Do(context.Background(), func(context.Context) error {
		fmt.Println("locked by TLS")
		return nil
	})
}

// configOf reads the files.
func configOf(ca, cert, key string) (*tls.Config, error) {
	authority, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s has no certificate", ca)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}, nil
}
