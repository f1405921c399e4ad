package defects

// ofLeases are defects of votes, validity, renewals and releases of a lease.
var ofLeases = []Defect{
	{
		Name: "release-without-compare",
		Rule: "A release deletes the key only if it holds the token of the released lease.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "    held = granted[key] or valueOf(key)\n  end\n",
			New:  "    held = granted[key] or valueOf(key)\n  end\n  if held and isRelease(what) then held = token end\n",
		}},
	}, {
		Name: "no-rollback",
		Rule: "An acquisition that fails is undone on all masters.",
		Edits: []Edit{{
			File: "internal/engine/acquire.go",
			Old:  "c.group.Send(wire.Undo, t.claim)",
			New:  "",
		}},
	}, {
		Name: "heal-counted",
		Rule: "A renewal creates no key; the vote of a master that was sent the key again counts from the next renewal on.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "  if held ~= token then\n    return type(held)",
			New:  "  if not held then\n    redis.pcall('SET', key, token, 'PX', ttl)\n    return 1\n  elseif held ~= token then\n    return type(held)",
		}},
	}, {
		Name: "minority",
		Rule: "A quorum is more than half of the configured masters.",
		Edits: []Edit{{
			File: "internal/quorum/tally.go",
			Old:  "return n/2 + 1",
			New:  "return n / 2",
		}},
	}, {
		Name: "clock-not-asked",
		Rule: "Valid asks the clocks whenever it is called; it does not wait for a timer.",
		Edits: []Edit{{
			File: "internal/engine/lease.go",
			Old:  "if err := s.err; err != nil || !t.validity.Over(now) {",
			New:  "if err := s.err; true {",
		}},
	}, {
		Name: "validity-from-answer",
		Rule: "Validity counts from before the first byte of the renewal whose votes are used.",
		Edits: []Edit{{
			File: "internal/renew/validity.go",
			Old:  "v.void = r.Start, full, false, 0\n",
			New:  "v.void = now, full, false, 0\n",
		}},
	}, {
		Name: "validity-from-retry",
		Rule: "Validity counts from the first command of the renewal, not from the retry of those that failed.",
		Edits: []Edit{{
			File: "internal/renew/validity.go",
			Old:  "\tr.retry = time.Time{}\n",
			New:  "\tr.retry = time.Time{}\n\tr.Start = now\n",
		}},
	}, {
		Name: "late-vote",
		Rule: "A round is used again only when all of its votes have come.",
		Edits: []Edit{{
			File: "internal/quorum/round.go",
			Old:  "\tr.ended = true\n\tdone := r.missing == 0\n",
			New:  "\tr.ended = true\n\tdone := true\n",
		}},
	}, {
		Name: "heal-after-release",
		Rule: "Nothing of a lease follows its release.",
		Edits: []Edit{{
			File: "internal/engine/tenure.go",
			Old:  "if t.err != nil || !t.validity.Current(r) {",
			New:  "if !t.validity.Current(r) {",
		}, {
			File: "internal/master/master.go",
			Old:  "case kind.Sets() && claim.released.Load():",
			New:  "case false:",
		}},
	}, {
		Name: "heal-never",
		Rule: "A master that has lost the key gets it again after a renewal that succeeds.",
		Edits: []Edit{{
			File: "internal/engine/tenure.go",
			Old:  "\t\t\tt.heal(r.Missing())\n",
			New:  "",
		}},
	}, {
		Name: "release-forgotten",
		Rule: "A release that a master has not answered is sent again on the next connection.",
		Edits: []Edit{{
			File: "internal/master/outbox.go",
			Old:  "\to.owed = append(o.owed, it.debt)\n}",
			New:  "}",
		}},
	}, {
		Name: "done-open",
		Rule: "Done is closed when the lease ends.",
		Edits: []Edit{{
			File: "internal/engine/lease.go",
			Old:  "\tif s.done != nil {\n\t\tclose(s.done)\n",
			New:  "\tif s.done != nil {\n",
		}},
	}, {
		Name: "fence-at-least",
		Rule: "A master acknowledges a fence only if the key's fence is then exactly that number.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "{last == fixed and 1 or -2, last}",
			New:  "{1, last}",
		}},
	}, {
		Name: "fence-forgotten",
		Rule: "A master gives a fence above the last.",
		Edits: []Edit{{
			File: "internal/wire/fences.lua",
			Old:  "given = math.max((last or 0) + 1, math.min(proposal or now, now + second))",
			New:  "given = math.min(proposal or now, now + second)",
		}},
	}, {
		Name: "old-number-committed",
		Rule: "A number that is older than MaxTTL is not committed.",
		Edits: []Edit{{
			File: "internal/fence/fence.go",
			Old:  "if number < At(start.Add(-maxTTL)) {",
			New:  "if false {",
		}},
	},
}
