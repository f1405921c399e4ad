package defects

// ofSlots are defects of permits of semaphores.
var ofSlots = []Defect{
	{
		Name: "aim-overwrites",
		Rule: "An aim waits for a slot that another token has.",
		Edits: []Edit{{
			File: "internal/wire/slots.lua",
			Old:  "      redis.call('HSET', slotsKey, 'w' .. s, token .. ' ' .. text(expiry) .. ' ' .. claims)\n      partner = owner\n",
			New:  "      occupy(s, token, expiry)\n      have = with(have, s)\n",
		}},
	}, {
		Name: "slots-added-up",
		Rule: "Votes for several slots are not added up.",
		Edits: []Edit{{
			File: "internal/waits/count.go",
			Old:  "s.number == number",
			New:  "s.number >= 0",
		}},
	}, {
		Name: "aim-forgets-nothing",
		Rule: "After an aim, votes for other slots never count.",
		Edits: []Edit{{
			File: "internal/waits/slots.go",
			Old:  "\tcase c.aim == nil:\n",
			New:  "\tcase true:\n",
		}},
	}, {
		Name: "fence-of-slots-forgotten",
		Rule: "A master gives a fence of permits above the last.",
		Edits: []Edit{{
			File: "internal/wire/slots.lua",
			Old:  "    last, err = nextFence(slotsKey, number)\n",
			New:  "    last, err = number, nil\n",
		}},
	}, {
		Name: "slots-shortened",
		Rule: "What another client sends never shortens the time of a slot.",
		Edits: []Edit{{
			File: "internal/wire/slots.lua",
			Old:  "slot) or 0) < expiry then",
			New:  "slot) or 0) ~= expiry then",
		}},
	},
}
