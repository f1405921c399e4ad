package promredlock_test

import (
	"os"
	"testing"

	"github.com/redlock-go/redlock/internal/usermodule"
)

// TestAModuleBuildsWithTheLinesOfThePackageComment does what the package comment says.
func TestAModuleBuildsWithTheLinesOfThePackageComment(t *testing.T) {
	comment, err := os.ReadFile("promredlock.go")
	if err != nil {
		t.Fatal(err)
	}
	usermodule.Build(t, comment, 2, "contrib/promredlock", `package main

import "github.com/redlock-go/redlock/contrib/promredlock"

func main() { promredlock.New(nil) }
`)
}
