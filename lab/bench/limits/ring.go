package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// ringEnv makes a worker a member of a ring: it holds the worker's number, and how many there are.
const ringEnv = "REDLOCK_LIMITS_RING"

// passOn is what a turn has to do at a master at least: the token of the holder becomes that of the next one, who is told so.
var passOn = redis.NewScript(1, "if redis.call('GET', KEYS[1]) == ARGV[1] or ARGV[1] == '' then redis.call('SET', KEYS[1], ARGV[2], 'PX', 10000) redis.call('PUBLISH', ARGV[3], ARGV[2]) return 1 end return 0")

// ring measures the least that turns of processes cost: each process knows who is next, so there is no queue, and no other command. A turn is
// one command and one message for each of five masters. A process enters by the messages of three of them, and holds the lock for 1 ms.
func ring(*options) error {
	const n, span = 16, 5 * time.Second
	table("processes", "turns/s", "fewest and most turns of a process", "longest wait", "CPU of all clients", "CPU of all masters")
	f, err := start(5)
	if err != nil {
		return err
	}
	defer f.Stop()
	return contend(f, n, span, func(i int) string { return fmt.Sprintf("%s=%d/%d", ringEnv, i, n) })
}

// joinRing is worker i of a ring of n: see work for what it reads and prints.
func joinRing(addrs []string, i, n int) error {
	turns := make(chan int64, len(addrs))
	conns := make([]redis.Conn, len(addrs))
	for m, addr := range addrs {
		conn, err := redis.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := passOn.Load(conn); err != nil {
			return err
		}
		conns[m] = conn
		told, err := redis.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer told.Close()
		sub := redis.PubSubConn{Conn: told}
		if err := sub.Subscribe(channel(i)); err != nil {
			return err
		}
		sub.Receive()
		go func() {
			for {
				switch message := sub.Receive().(type) {
				case redis.Message:
					turn, _ := strconv.ParseInt(string(message.Data), 10, 64)
					turns <- turn
				case error:
					return
				}
			}
		}()
	}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	var over atomic.Bool
	go func() {
		io.Copy(io.Discard, in)
		over.Store(true)
		turns <- 0
	}()
	pass := func(turn int64) {
		mine := strconv.FormatInt(turn, 10)
		if turn == 0 {
			mine = ""
		}
		for _, conn := range conns {
			passOn.SendHash(conn, "limits", mine, turn+1, channel((i+1)%n))
			conn.Flush()
		}
		for _, conn := range conns { // they have been answered by the time of the next turn, but for the first process
			go conn.Receive()
		}
	}
	if i == 0 {
		time.Sleep(100 * time.Millisecond) // all others are ready
		pass(0)
	}
	heard, locks, longest := map[int64]int{}, 0, time.Duration(0)
	used, left := cpu(), time.Now()
	for turn := range turns {
		if over.Load() {
			_, err := fmt.Println(locks, int64(longest), int64(cpu()-used))
			return err
		}
		if heard[turn]++; heard[turn] != len(addrs)/2+1 {
			continue
		}
		delete(heard, turn-int64(n))
		longest = max(longest, time.Since(left))
		time.Sleep(time.Millisecond)
		pass(turn)
		locks, left = locks+1, time.Now()
	}
	return nil
}

func channel(i int) string { return "ring:" + strconv.Itoa(i) }

// ringOf returns the number of a worker of a ring, and how many there are.
func ringOf(env string) (i, n int, ok bool) {
	at, of, _ := strings.Cut(env, "/")
	i, err := strconv.Atoi(at)
	n, bad := strconv.Atoi(of)
	return i, n, err == nil && bad == nil
}
