package certmagiclock_test

import (
	"os"
	"testing"

	"github.com/redlock-go/redlock/internal/usermodule"
)

// TestAModuleBuildsWithTheLinesOfThePackageComment does what the package comment says.
func TestAModuleBuildsWithTheLinesOfThePackageComment(t *testing.T) {
	comment, err := os.ReadFile("certmagiclock.go")
	if err != nil {
		t.Fatal(err)
	}
	usermodule.Build(t, comment, 2, "contrib/certmagiclock", `package main

import "github.com/redlock-go/redlock/contrib/certmagiclock"

func main() { certmagiclock.New(nil, nil, nil) }
`)
}
