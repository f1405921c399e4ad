package flight

import "testing"

func TestAHolderIsSureOfMastersThatHaveVotedAndSetTheTokenNoMore(t *testing.T) {
	for _, row := range []struct {
		name    string
		settled func() uint64
		healed  uint64
		want    uint64
	}{
		{"an attempt without a claim", nil, 0, 0b01110},
		{"a claim that two masters may set again", func() uint64 { return 0b11001 }, 0, 0b01000},
		{"a master was sent a heal", nil, 0b00100, 0b01010},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := NewPublishing([]int{1, 2, 3, 4, 5}, 0b01110, row.settled)
			p.Healed(row.healed)
			settled := p.Settled()
			for i := range 5 {
				if sure, contact := p.To(i, settled); sure != (row.want>>i&1 == 1) || contact != i+1 {
					t.Errorf("master %d: sure %v, contact %d", i, sure, contact)
				}
			}
		})
	}
	(*Publishing)(nil).Healed(1) // of a lease that sends no value
}
