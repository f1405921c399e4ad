package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock/internal/masterurl"
	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/remedy"
)

// mastersEnv is the environment variable that is used without --masters.
const mastersEnv = "REDLOCK_MASTERS"

// mastersFlag returns the flag --masters, the same for every command that has it.
//
// mastersOf reads the variable, not the flag itself: else help texts and flag errors would
// quote its value, which may hold passwords.
func mastersFlag() cli.Flag {
	return &cli.StringFlag{
		Name:  "masters",
		Usage: "comma-separated `URLS`, or @FILE with them",
	}
}

// connectFlags returns --masters, and how to connect to masters with TLS.
func connectFlags() []cli.Flag {
	return []cli.Flag{
		mastersFlag(),
		&cli.StringFlag{Name: "ca", Usage: "`FILE` with the authorities to trust for rediss://"},
		&cli.StringFlag{Name: "cert", Usage: "`FILE` with a client certificate for rediss://"},
		&cli.StringFlag{Name: "key", Usage: "`FILE` with the key of --cert"},
		&cli.BoolFlag{Name: "insecure", Usage: "accept any certificate from rediss://"},
	}
}

// mastersHelp explains --masters. It ends the description of each command that has the flag.
const mastersHelp = `

Masters are redis://, rediss:// (TLS) or unix:// URLs, or host:port. Without
--masters they are taken from $` + mastersEnv + `. Either can be @FILE, a file
with one URL on each line. Put passwords into the variable or the file:
others can see the arguments of processes. Files of URLs and certificates are
read again at each new connection, so they can be replaced meanwhile.`

// A master is one entry of --masters. Printing it shows its address only.
type master struct {
	masterurl.URL
	raw    string        // as given, with the password: for redlock.Open, never printed
	config *tls.Config   // for rediss; nil for the defaults
	given  *mastersGiven // where all of this was read
}

// mastersOf returns the masters of --masters, else those of $REDLOCK_MASTERS, else nil.
func mastersOf(cmd *cli.Command) ([]master, error) {
	source, list := "--masters", cmd.String("masters")
	if !cmd.IsSet("masters") {
		if source, list = "$"+mastersEnv, os.Getenv(mastersEnv); strings.TrimSpace(list) == "" {
			return nil, nil
		}
	}
	return mastersIn(cmd, source, list)
}

// mastersIn returns the masters of a list, or of the file that it names.
func mastersIn(cmd *cli.Command, source, list string) ([]master, error) {
	g := &mastersGiven{
		Source: source, List: list,
		CA: cmd.String("ca"), Cert: cmd.String("cert"), Key: cmd.String("key"), Insecure: cmd.Bool("insecure"),
	}
	return g.read()
}

// A mastersGiven is where masters and the settings of TLS are read: a list or a file, and the files of certificates. It is immutable.
// A supervisor gets it as JSON.
type mastersGiven struct {
	Source, List  string
	CA, Cert, Key string
	Insecure      bool
}

// read returns the masters.
func (g *mastersGiven) read() ([]master, error) {
	source, list := g.Source, g.List
	if name, isFile := g.file(); isFile {
		if strings.Contains(name, "://") {
			return nil, usageErrorf("%s: a URL is not the name of a file: leave the @ out", source)
		}
		var err error
		if list, err = mastersFile(name); err != nil {
			if path := (*fs.PathError)(nil); strings.Contains(name, "@") && errors.As(err, &path) {
				err = fmt.Errorf("%s the file: %w", path.Op, path.Err) // its name may be a user and a password
			}
			return nil, usageErrorf("%s: %w", source, err)
		}
		source = redisconn.Printable(name)
	}
	masters, err := parseMasters(source, list)
	if err != nil {
		return nil, err
	}
	config, err := g.tls()
	if err != nil {
		return nil, err
	}
	encrypted := false
	for i := range masters {
		masters[i].config, masters[i].given = config, g
		encrypted = encrypted || masters[i].TLS()
	}
	if config != nil && !encrypted {
		return nil, usageErrorf("--ca, --cert, --key and --insecure are for rediss:// URLs, and no master has one")
	}
	return masters, nil
}

// file returns the name of the file with the URLs, if there is one.
func (g *mastersGiven) file() (name string, isFile bool) {
	return strings.CutPrefix(strings.TrimSpace(g.List), "@")
}

// rereadable reports whether there are files to be read, and all of them can be read again. A pipe, such as <(command) of a shell, cannot.
func (g *mastersGiven) rereadable() bool {
	names := []string{g.CA, g.Cert, g.Key}
	if name, isFile := g.file(); isFile {
		names = append(names, name)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return len(names) > 0
}

// now returns the master with the password and the certificates that its files have at present: a process may outlive them. If the files
// cannot be read, or do not have the master any more, it returns m: somebody may be writing them just now.
func (m master) now() master {
	if m.given == nil || !m.given.rereadable() {
		return m
	}
	masters, err := m.given.read()
	if err != nil {
		return m
	}
	for _, fresh := range masters {
		if fresh.Address() == m.Address() && fresh.Database() == m.Database() && fresh.TLS() == m.TLS() {
			return fresh
		}
	}
	return m
}

// Dial dials the master as it is now.
func (m master) Dial(ctx context.Context, options ...redis.DialOption) (redis.Conn, error) {
	m = m.now()
	return m.URL.Dial(ctx, m.config, options...)
}

// Connect connects to the master as it is now.
func (m master) Connect(ctx context.Context) (net.Conn, error) {
	m = m.now()
	return m.URL.Connect(ctx, m.config)
}

// byteOrderMark is what some editors write at the beginning of a file.
const byteOrderMark = "\ufeff"

// mastersFileMost is how large a file of masters may be, in bytes.
const mastersFileMost = 1 << 20

// mastersFile returns the URLs of a file as a comma separated list. The file has one URL on each line.
// Empty lines, and lines that begin with a #, do not count. Commas separate URLs, too.
func mastersFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mastersFileMost+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > mastersFileMost:
		return "", fmt.Errorf("%s is larger than %d bytes", name, mastersFileMost)
	}
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return "", fmt.Errorf("%s is UTF-16: save it as UTF-8", name)
	}
	var urls []string
	for line := range strings.Lines(strings.TrimPrefix(string(text), byteOrderMark)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			urls = append(urls, line)
		}
	}
	return strings.Join(urls, ","), nil
}

// tls returns the settings of TLS that the flags ask for, or nil for the defaults.
func (g *mastersGiven) tls() (*tls.Config, error) {
	ca, cert, key := g.CA, g.Cert, g.Key
	if ca == "" && cert == "" && key == "" && !g.Insecure {
		return nil, nil
	}
	config := &tls.Config{InsecureSkipVerify: g.Insecure}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, usageErrorf("--ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, usageErrorf("--ca: %s has no certificate in PEM", ca)
		}
	}
	switch {
	case (cert == "") != (key == ""):
		return nil, usageErrorf("--cert and --key need each other")
	case cert != "":
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, usageErrorf("--cert, --key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// needMasters is mastersOf for commands that need masters. example is the rest of a command
// line behind --masters and its value.
func needMasters(cmd *cli.Command, example string) ([]master, error) {
	masters, err := mastersOf(cmd)
	if err == nil && len(masters) == 0 {
		err = withHint(usageErrorf("%s needs the masters: --masters or $%s", cmd.Name, mastersEnv),
			"redlock "+cmd.Name+" --masters host1:6379,host2:6379,host3:6379"+example)
	}
	return masters, err
}

// parseMasters parses the value of source, a comma separated list.
func parseMasters(source, list string) ([]master, error) {
	raw := strings.Split(list, ",")
	urls, err := masterurl.ParseList(raw)
	if err != nil {
		return nil, usageErrorf("%s: %w", source, err)
	}
	masters := make([]master, len(urls))
	for i := range urls {
		masters[i] = master{URL: urls[i], raw: raw[i]}
	}
	return masters, nil
}

// atOnce calls f for all masters at the same time, since some may be slow.
func atOnce(masters []master, f func(i int, m master)) {
	var wg sync.WaitGroup
	for i, m := range masters {
		wg.Go(func() { f(i, m) })
	}
	wg.Wait()
}

// pools returns pools for redlock.New that dial the masters as they are at the time.
func pools(masters []master) []*redis.Pool {
	all := make([]*redis.Pool, len(masters))
	for i, m := range masters {
		all[i] = &redis.Pool{
			DialContext: func(ctx context.Context) (redis.Conn, error) { return m.Dial(ctx) },
			MaxIdle:     2,
		}
	}
	return all
}

// addresses returns what errors call the masters.
func addresses(masters []master) []string {
	names := make([]string, len(masters))
	for i, m := range masters {
		names[i] = m.Address()
	}
	return names
}

// rawURLs returns what redlock.Open takes.
func rawURLs(masters []master) []string {
	raw := make([]string, len(masters))
	for i, m := range masters {
		raw[i] = m.raw
	}
	return raw
}

// dial connects to the master within patience. Each reply after that may take as long.
// Everything is bounded, since a frozen server still accepts connections. The first command is a
// short one, which needs no right: what a server without a place for us says is the reply to that.
func (m master) dial(ctx context.Context, patience time.Duration) (redis.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := m.Dial(ctx, redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
	if err != nil {
		return nil, err
	}
	if _, err := conn.Do("HELLO"); err != nil && (conn.Err() != nil || remedy.Ends(err)) {
		conn.Close()
		return nil, redisconn.PrintableError(err)
	}
	return conn, nil
}
