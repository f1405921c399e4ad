package gooselock_test

import (
	"os"
	"testing"

	"github.com/redlock-go/redlock/internal/usermodule"
)

// TestAModuleBuildsWithTheLinesOfThePackageComment does what the package comment says.
func TestAModuleBuildsWithTheLinesOfThePackageComment(t *testing.T) {
	comment, err := os.ReadFile("gooselock.go")
	if err != nil {
		t.Fatal(err)
	}
	usermodule.Build(t, comment, 2, "contrib/gooselock", `package main

import "github.com/redlock-go/redlock/contrib/gooselock"

func main() { gooselock.NewLocker(nil, "", nil) }
`)
}
