package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
	"github.com/redlock-go/redlock/internal/wire"
)

// subscribe listens on servers as a client with this id would, until the test or ctx ends.
func subscribe(t *testing.T, ctx context.Context, id string, servers ...*redisserver.Server) {
	t.Helper()
	for _, s := range servers {
		conn, err := redis.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Do("SUBSCRIBE", wire.WakeChannel+id); err != nil {
			t.Fatal(err)
		}
		context.AfterFunc(ctx, func() { conn.Close() })
	}
}

// listening returns the ids of the clients that listen on a server.
func listening(t *testing.T, s *redisserver.Server) []string {
	t.Helper()
	conn, err := redis.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ids, err := wakeClients(conn)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// local returns the addresses under another name.
func local(addresses string) string { return strings.ReplaceAll(addresses, "127.0.0.1", "localhost") }

func TestDoctorNamesClientsWithAnotherListOfMasters(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 5)
	at := func(which string) string { // the addresses of the servers a to e; x is one where nobody listens
		var list []string
		for _, c := range which {
			if c == 'x' {
				list = append(list, "127.0.0.1:1")
				continue
			}
			list = append(list, servers[c-'a'].Addr())
		}
		return strings.Join(list, ",")
	}
	const plain = "Q7wq2Jm0cX9_-aZbYcXdWeVfUg" // the random part of an id that tells no number of masters, without the last character
	wrong := []struct{ owner, masters, want string }{
		{"one-other", at("abd"), "connected to 2 of 3, not to " + at("c")},
		{"two-others", at("ade"), "connected to 1 of 3, not to " + at("b") + ", " + at("c")},
		{"one", at("a"), "has 1 master, not 3; connected to 1 of 3, not to " + at("b") + ", " + at("c")},
		{"two", at("bc"), "has 2 masters, not 3; connected to 2 of 3, not to " + at("a")},
		{"four", at("abcd"), "has 4 masters, not 3; connected to 3 of 3"},
		{"five", at("abcde"), "has 5 masters, not 3; connected to 3 of 3"},
		{"other-names", local(at("cbd")), "connected to 2 of 3, not to " + at("a")},
		{"one-of-five", at("cdex") + ",127.0.0.1:2", "has 5 masters, not 3; connected to 1 of 3, not to " + at("a") + ", " + at("b")},
		{"unreachable", at("axc"), "connected to 2 of 3, not to " + at("b")},
	}
	right := []struct{ owner, masters string }{
		{"same", at("abc")},
		{"other-order", at("cab")},
		{"names", local(at("abc"))},
		{"URLs", "redis://" + at("a") + ",redis://" + local(at("b")) + "/0," + at("c")},
	}
	for _, client := range wrong {
		openQuietly(t, client.masters, redlock.Options{Owner: client.owner})
	}
	for _, client := range right {
		openQuietly(t, client.masters, redlock.Options{Owner: client.owner})
	}
	subscribe(t, t.Context(), plain+"T@plain-and-wrong", servers[1])
	subscribe(t, t.Context(), plain+"S@plain-and-right", servers[:3]...)
	until(t, func() bool { // all have subscribed
		return len(listening(t, servers[0])) == 11 && len(listening(t, servers[1])) == 11 && len(listening(t, servers[2])) == 11
	})
	says := doctorSays(t, exitOK, at("abc"))
	var found []string
	for _, s := range says.Strays {
		found = append(found, s.Owner)
	}
	expected := []string{"plain-and-wrong"}
	for _, client := range wrong {
		expected = append(expected, client.owner)
		// One line of the verdict.
		if line := "  " + client.owner + ": " + client.want; !slices.Contains(says.Verdict, line) {
			t.Errorf("the verdict lacks %q:\n%s", line, strings.Join(says.Verdict, "\n"))
		}
	}
	slices.Sort(expected)
	if !slices.Equal(found, expected) {
		t.Errorf("strays: %q\nwant:   %q", found, expected)
	}
	i := slices.Index(found, "four")
	if s := says.Strays[i]; s.Masters != 4 || !slices.Equal(s.On, strings.Split(at("abc"), ",")) || len(s.Off) != 0 || s.Off == nil {
		t.Errorf("the client with four masters: %+v", s)
	}
	wantNarrow(t, runDoctor(t, exitOK, at("abc")))
}

// A client that starts or ends is connected to some masters only.
func TestDoctorDoesNotNameClientsThatStartOrEnd(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	ctx, end := context.WithCancel(t.Context())
	subscribe(t, ctx, "Q7wq2Jm0cX9_-aZbYcXdWeVfUgTC@ends", servers[0])
	asked := func() bool { // by the doctor
		info, _ := redis.String(servers[0].Do("INFO", "commandstats"))
		return strings.Contains(info, "pubsub|channels") || strings.Contains(info, "cmdstat_pubsub")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		until(t, asked)
		end()
	}()
	out := runDoctor(t, exitOK, listOf(servers))
	<-ended
	if strings.Contains(out, "another list") {
		t.Errorf("a client that has ended is named:\n%s", out)
	}
}

func TestStraysAreJudgedByMastersThatSayWhoListens(t *testing.T) {
	const id = "Q7wq2Jm0cX9_-aZbYcXdWeVfUgTC@web" // has three masters
	on, off := finding{ids: []string{id}}, finding{ids: []string{}}
	silent, refused := finding{}, finding{ids: []string{}, refusal: errLacks}
	for _, tt := range []struct {
		name     string
		findings []finding
		want     int
	}{
		{"on all", []finding{on, on, on}, 0},
		{"on all but one", []finding{on, off, on}, 1},
		{"a master does not say", []finding{on, silent, on}, 0},
		{"a master must not vote", []finding{on, refused, on}, 0},
		{"on none", []finding{off, off, off}, 0},
		{"another number", []finding{on, on}, 1},
	} {
		if got := straysOf(tt.findings); len(got) != tt.want {
			t.Errorf("%s: %+v, want %d", tt.name, got, tt.want)
		}
	}
}

func TestClientsOfWhichTheSameIsToBeSaidShareALine(t *testing.T) {
	var strays []stray
	for range 400 {
		strays = append(strays, stray{id: "Q7wq2Jm0cX9_-aZbYcXdWeVfUgTC@web", on: []string{"a"}, off: []string{"b"}})
	}
	strays = append(strays, stray{id: "x\x1b[2J", on: []string{"b"}, off: []string{"a"}})
	got := straysText(strays, 2)
	want := "\n  " + strings.Repeat("web, ", 10) + "and 390 more: connected to 1 of 2, not to b\n"
	if !strings.Contains(got, want) || strings.Count(got, "\n") != 4 || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}
