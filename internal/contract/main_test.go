package contract_test

import (
	"testing"

	"github.com/redlock-go/redlock/internal/locktest"
)

func TestMain(m *testing.M) { locktest.Main(m) }
