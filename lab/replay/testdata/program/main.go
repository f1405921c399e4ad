// Command program prints what a seed does not determine: the order of a map, of goroutines, of a select, random numbers, the time.
package main

import (
	crypto "crypto/rand"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

func main() {
	for k := range map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true, 8: true} {
		fmt.Print(k, " ")
	}
	fmt.Println(crypto.Text(), rand.Uint64(), time.Now().UnixNano())
	a, b := make(chan int, 64), make(chan int, 64)
	for i := range 64 {
		go func() { a <- i }()
		go func() { b <- -i }()
	}
	time.Sleep(time.Millisecond)
	for range 128 {
		select {
		case i := <-a:
			fmt.Print(i, " ")
		case i := <-b:
			fmt.Print(i, " ")
		}
	}
	if len(os.Args) > 1 {
		os.Exit(3)
	}
}
