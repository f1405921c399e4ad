package peers

import "testing"

func TestMasterOf(t *testing.T) {
	if i, err := masterOf(RueidisKey("a:b", 3)); i != 3 || err != nil {
		t.Errorf("masterOf = %d, %v, want 3", i, err)
	}
	if _, err := masterOf("a"); err == nil {
		t.Error("masterOf has no error for another's key")
	}
}
