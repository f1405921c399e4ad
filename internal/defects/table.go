package defects

// All is the table of defects. A test checks that each edit's text still occurs in the source. If
// you change that source, change the edit, too.
var All = []Defect{
	{
		Name: "guard-off",
		Rule: "A vote counts only if the master's memory is older than MaxTTL + 2 s.",
		Edits: []Edit{{
			File: "internal/guard/servers.go",
			Old:  "\tif client.Clock == nil {\n",
			New:  "\tclient.Off = true\n\tif client.Clock == nil {\n",
		}},
	}, {
		Name: "short-quarantine",
		Rule: "A quarantine lasts for MaxTTL and 2 s.",
		Edits: []Edit{{
			File: "internal/guard/guard.go",
			Old:  "since.Add(most + incarnation.Margin)",
			New:  "since.Add(most/10 + 0*incarnation.Margin)",
		}},
	}, {
		Name: "probe-ignored",
		Rule: "A vote counts only if the probe behind it finds the memory and the clock as they were.",
		Edits: []Edit{{
			File: "internal/guard/probe.go",
			Old:  "	if !found.same {\n		return false, ErrChanged\n	}\n",
			New:  "	if !found.same {\n		return true, nil\n	}\n",
		}},
	}, {
		Name: "release-without-compare",
		Rule: "A release deletes the key only if it holds the token of the released lease.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "    held = granted[key] or not opened[key] and valueOf(key)\n  end\n",
			New:  "    held = granted[key] or not opened[key] and valueOf(key)\n  end\n  if held and isRelease(what) then held = token end\n",
		}},
	}, {
		Name: "no-rollback",
		Rule: "An acquisition that fails is undone on all masters.",
		Edits: []Edit{{
			File: "acquire.go",
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
		Name: "fence-at-least",
		Rule: "A master acknowledges a fence only if the key's fence is then exactly that number.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "{last == fixed and 1 or -2, last}",
			New:  "{1, last}",
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
			File: "lease.go",
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
			File: "tenure.go",
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
			File: "tenure.go",
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
			File: "lease.go",
			Old:  "\tif s.done != nil {\n\t\tclose(s.done)\n",
			New:  "\tif s.done != nil {\n",
		}},
	}, {
		Name: "fence-forgotten",
		Rule: "A master gives a fence above the last.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "given = math.max((last or 0) + 1, math.min(proposal or now, now + second))",
			New:  "given = math.min(proposal or now, now + second)",
		}},
	}, {
		Name: "given-up-not-passed",
		Rule: "A claim that is given up passes a free lock on.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "if n == -1 or how == 'free'",
			New:  "if n ~= 1 or how == 'free'",
		}},
	}, {
		Name: "tells-nobody",
		Rule: "A release tells the claim that has waited longest.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "      redis.pcall('PUBLISH', 'redlock:wake:' .. client, token .. ' ' .. key)\n",
			New:  "",
		}, {
			File: "internal/wire/batch.lua",
			Old:  "if redis.pcall('PUBLISH', 'redlock:wake:' .. client, token .. ' ' .. key) == 0 and not deaf or redis",
			New:  "if redis",
		}, {
			File: "internal/wire/batch.lua",
			Old:  "redis.pcall('PUBLISH', 'redlock:wake:' .. client, string.format(",
			New:  "redis.pcall('PUBLISH', 'redlock:nobody', string.format(",
		}},
	}, {
		Name: "grant-from-receipt",
		Rule: "A grant counts from the last ping that was answered before its message.",
		Edits: []Edit{{
			File: "internal/master/wake.go",
			Old:  "told.Next, mark, l.sure(told.Memory, mark)}",
			New:  "told.Next, l.cfg.Servers.Client.Clock(), l.sure(told.Memory, mark)}",
		}},
	}, {
		Name: "dead-before-the-deaf",
		Rule: "A claim without a subscription whose client has ended leaves the queue, by the poll of any other claim in it.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "and (mine or not deaf or not head or not isDeaf(head)) then",
			New:  "and not (deaf and head and isDeaf(head)) then",
		}},
	}, {
		Name: "grant-without-run",
		Rule: "A grant that does not tell the run_id is no vote.",
		Edits: []Edit{{
			File: "internal/guard/guard.go",
			Old:  "case in.Run == wire.NoRun:",
			New:  "case in.Run == \"\":",
		}},
	}, {
		Name: "grant-unsure",
		Rule: "A grant counts only if it was made in the memory that is known, after its quarantine.",
		Edits: []Edit{{
			File: "internal/waits/ballot.go",
			Old:  "if !g.Sure {",
			New:  "if false {",
		}},
	}, {
		Name: "given-up-counts",
		Rule: "A grant counts only for the claim whose token it names: one that was given up never counts.",
		Edits: []Edit{{
			File: "internal/waits/ballot.go",
			Old:  "in == nil || in.claim == nil || in.claim.Token() != g.Token",
			New:  "in == nil || in.claim == nil",
		}},
	}, {
		Name: "token-twice",
		Rule: "Each claim has a token of its own.",
		Edits: []Edit{{
			File: "claim.go",
			Old:  "type contender struct {\n",
			New:  "type contender struct {\n\ttoken string\n",
		}, {
			File: "claim.go",
			Old:  "\tof, holders := l.kind.claimOf(w, waited)\n",
			New:  "\tof, holders := l.kind.claimOf(w, waited)\n\tq.token = cmp.Or(q.token, of.Token)\n\tof.Token = q.token\n",
		}},
	}, {
		Name: "grant-overwrites",
		Rule: "A grant sets the key only where there is none.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "redis.pcall('SET', key, token, 'NX', 'PX', ms)",
			New:  "redis.pcall('SET', key, token, 'PX', ms)",
		}, {
			File: "internal/wire/batch.lua",
			Old:  "  local n = held and -1 or 0\n  local passed\n",
			New:  "  local n = 0\n  local passed\n",
		}},
	}, {
		Name: "latest-vote",
		Rule: "A lease that was granted ends with the first of the votes that it rests on.",
		Edits: []Edit{{
			File: "internal/waits/ballot.go",
			Old:  "Left: lefts[s.Need-1].d",
			New:  "Left: lefts[0].d",
		}},
	}, {
		Name: "keeps-to-itself",
		Rule: "A claim that is given up passes on what it was granted.",
		Edits: []Edit{{
			File: "claim.go",
			Old:  "\tc.group.Send(how, q.claim.SentClaim)\n",
			New:  "\tc.group.Send(q.claim.ReleasingFree(1<<len(c.masters)-1), q.claim.SentClaim)\n",
		}},
	}, {
		Name: "minority-kept",
		Rule: "A claim that fewer than a quorum of masters answer is released.",
		Edits: []Edit{{
			File: "internal/waits/verdict.go",
			Old:  "if !f.Answered {",
			New:  "if false {",
		}},
	}, {
		Name: "lockstep",
		Rule: "A claim arrives at all masters of a quorum at one moment, and clients that have split the votes sleep for random times.",
		Edits: []Edit{{
			File: "internal/quorum/together.go",
			Old:  "wait >= worthWaiting {",
			New:  "wait >= worthWaiting && false {",
		}, {
			File: "acquire.go",
			Old:  "		q.resume = q.resume.Add(rand.N(c.group.Distance() + 1))\n",
			New:  "		q.resume = q.resume.Add(rand.N(time.Duration(1)))\n",
		}},
	}, {
		Name: "own-maxttl",
		Rule: "A quarantine follows the largest MaxTTL that any client of the masters has declared.",
		Edits: []Edit{{
			File: "internal/guard/inspect.go",
			Old:  "	i.servers.declare(found.Record.MaxTTL)\n",
			New:  "",
		}},
	}, {
		Name: "read-beside-writer",
		Rule: "A master refuses readers while a writer holds the key.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "  if held and held ~= marker and (new or rank == 0) then\n    more()",
			New:  "  if held and held ~= marker then\n    return 1, '', false, 0\n  elseif held and held ~= marker and (new or rank == 0) then\n    more()",
		}},
	}, {
		Name: "write-beside-reader",
		Rule: "The marker of the readers stands as long as one reader does.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "    if top and top > now then\n      if score and score > top then",
			New:  "    if not score and top and top > now then\n      if score and score > top then",
		}},
	}, {
		Name: "marker-of-the-last",
		Rule: "The marker of the readers lives as long as the longest of them.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "  local top = longest(readersKey)\n  if top <= now + ttl then\n    mark(key, readersKey, top, now)\n  end\n",
			New:  "  mark(key, readersKey, now + ttl, now)\n",
		}},
	}, {
		Name: "part-of-a-set",
		Rule: "A master grants several names only if each of them is free.",
		Edits: []Edit{{
			File: "internal/wire/set.lua",
			Old:  "    local value = redis.pcall('GET', key) -- a table, if the value is not a lock\n",
			New:  "    local value = i == 1 and redis.pcall('GET', key)\n",
		}},
	}, {
		Name: "reader-expired",
		Rule: "A renewal of a reader counts only if the reader has not expired.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "  return score and score > now and score, 0\n",
			New:  "  return score, 0\n",
		}},
	}, {
		Name: "reader-renewed-anew",
		Rule: "A renewal of a reader adds no reader, and sets no marker.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "redis.pcall('GET', key))\n  if not is then\n    return no\n  end\n  prolong(",
			New:  "redis.pcall('GET', key))\n  if no == -1 then\n    return no\n  end\n  prolong(",
		}},
	}, {
		Name: "readers-of-before",
		Rule: "Where there is no key, a read vote empties the set of readers first.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "  else\n    redis.call('DEL', readersKey)\n  end\n  stand(",
			New:  "  end\n  stand(",
		}},
	}, {
		Name: "entered-by-an-old-clock",
		Rule: "A goroutine reads the clocks after it has entered a read lease.",
		Edits: []Edit{{
			File: "rwlocker.go",
			Old:  "\tif !e.state.Enter(true) {\n\t\treturn nil\n\t}\n\tt := e.tenure.Load()\n\tif t.snapshot.Load().enters.Ahead(e.client.clock) && ",
			New:  "\tt := e.tenure.Load()\n\tfresh := t != nil && t.snapshot.Load().enters.Ahead(e.client.clock)\n\truntime.Gosched()\n\tif !e.state.Enter(true) {\n\t\treturn nil\n\t}\n\tt = e.tenure.Load()\n\tif fresh && ",
		}, {
			File: "rwlocker.go",
			Old:  "\t\"fmt\"\n\t\"sync\"\n",
			New:  "\t\"fmt\"\n\t\"runtime\"\n\t\"sync\"\n",
		}},
	}, {
		Name: "recall-message-ignored",
		Rule: "Readers leave when a message asks them to.",
		Edits: []Edit{{
			File: "client.go",
			Old:  "\t\treturn l.client.entrances.recallReaders(key)\n",
			New:  "\t\treturn true\n",
		}},
	}, {
		Name: "recall-vote-ignored",
		Rule: "Readers that are let in while a writer waits keep further ones out.",
		Edits: []Edit{{
			File: "rwlocker.go",
			Old:  "\t\tif r.early || w.try.round.Any(",
			New:  "\t\tif r.early || false && w.try.round.Any(",
		}},
	}, {
		Name: "recall-renewal-ignored",
		Rule: "Readers learn of a writer from the answer to their renewal.",
		Edits: []Edit{{
			File: "tenure.go",
			Old:  "\tif a.Recalled {",
			New:  "\tif false {",
		}},
	}, {
		Name: "intent-ignored",
		Rule: "Readers that came later than a writer wait behind it.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "  local writer = firstWriter(key, what ~= 'register')\n  if announced and announced <= clock() - waited then\n",
			New:  "  local writer = nil\n  if false then\n",
		}},
	}, {
		Name: "readers-behind-writers",
		Rule: "After a writer, the readers that waited are granted the lock.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "  local lease = n == 1 and byHolder\n",
			New:  "  local lease = false\n",
		}},
	}, {
		Name: "reader-fence-old",
		Rule: "A reader's fence is not below the time when its acquisition began.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "  if n > 0 and proposal then\n",
			New:  "  if false then\n",
		}},
	}, {
		Name: "reader-not-prolonged",
		Rule: "The second round for the fence of a reader prolongs its time, too: the votes of a grant last for g only.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "  if not err and last == fixed then\n    prolong(key, token, ttl, now)\n  end\n",
			New:  "",
		}},
	}, {
		Name: "reader-number-at-least",
		Rule: "A master acknowledges the number of a reader only if it is exactly the last one.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "  return err or {last == fixed and 1 or -2, last}\n",
			New:  "  return err or {1, fixed}\n",
		}},
	}, {
		Name: "granted-to-one-reader",
		Rule: "After a writer, all readers that wait are granted the lock.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "redis.pcall('ZRANGE', rqueue, 0, budget - 1, 'WITHSCORES')",
			New:  "redis.pcall('ZRANGE', rqueue, 0, 0, 'WITHSCORES')",
		}},
	}, {
		Name: "reader-stays-behind",
		Rule: "A reader with votes joins the readers of other masters though a writer waits there.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "    return not writer or what == 'asks', writer or announced\n",
			New:  "    return not writer, writer or announced\n",
		}},
	}, {
		Name: "reader-lost-untold",
		Rule: "The answer to a poll of a reader says that it has neither stood nor waited.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "    return 1, '', polls and was == 0, writer and 1 or 0\n",
			New:  "    return 1, '', false, writer and 1 or 0\n",
		}},
	}, {
		Name: "readers-not-recalled",
		Rule: "The first writer that waits and runs asks the readers to leave.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "  if not first or first == mine then\n    recallReaders(",
			New:  "  if false then\n    recallReaders(",
		}},
	}, {
		Name: "renewed-where-any",
		Rule: "A lease of several names is renewed only where all keys hold its token.",
		Edits: []Edit{{
			File: "internal/wire/set.go",
			Old:  "\treturn rank(a) > rank(b)\n",
			New:  "\treturn rank(a) > rank(b) != (k == Renew)\n",
		}},
	}, {
		Name: "parts-not-undone",
		Rule: "When single names become one lease, their keys are deleted where that was refused.",
		Edits: []Edit{{
			File: "names.go",
			Old:  "\t\t\tleaveParts(w, parts)\n",
			New:  "",
		}},
	}, {
		Name: "merger-kept",
		Rule: "A claim for several names that took over single ones is released if it fails.",
		Edits: []Edit{{
			File: "names.go",
			Old:  "\t\t\tc.group.Send(wire.Release, w.merged)\n",
			New:  "",
		}},
	}, {
		Name: "parts-live-on",
		Rule: "The leases of single names end before they become one lease.",
		Edits: []Edit{{
			File: "names.go",
			Old:  "\t\tif !t.end(ErrReleased) { // from now on, nothing of it but its release is sent\n\t\t\treturn true\n\t\t}\n",
			New:  "",
		}},
	}, {
		Name: "kept-clocks-unread",
		Rule: "A goroutine that enters a kept lock reads the clocks after it has taken it.",
		Edits: []Edit{{
			File: "kept.go",
			Old:  "enters.Ahead(t.client.clock) && !k.state",
			New:  "!k.state",
		}},
	}, {
		Name: "kept-recall-dropped",
		Rule: "A recall that comes while a goroutine holds the lock is heeded by its Unlock.",
		Edits: []Edit{{
			File: "kept.go",
			Old:  "if mine && !k.mark(occupancy.Draining) {",
			New:  "if mine && !k.giveBack() {",
		}},
	}, {
		Name: "kept-beside-others",
		Rule: "A lock is not kept beside a goroutine that it cannot be handed to.",
		Edits: []Edit{{
			File: "kept.go",
			Old:  "k.client.gates.Waiting(k.key) || !k.vacate(s)",
			New:  "!k.vacate(s)",
		}},
	}, {
		Name: "kept-loss-untold",
		Rule: "A loss takes a kept lock from its keeper before the release is queued.",
		Edits: []Edit{{
			File: "holders.go",
			Old:  "\tif e.tenure.Load() != t {\n",
			New:  "\tif e.tenure.Load() != nil {\n",
		}},
	}, {
		Name: "kept-begun-late",
		Rule: "A lease that is lost before others can enter it is not entered.",
		Edits: []Edit{{
			File: "holders.go",
			Old:  "\tif t.err != nil { // shutOut",
			New:  "\tif false { // shutOut",
		}},
	}, {
		Name: "kept-entered-late",
		Rule: "A kept lock is taken before its release is queued, so that no goroutine enters it afterwards.",
		Edits: []Edit{{
			File: "internal/occupancy/occupancy.go",
			Old:  "State { return s - 1 | taken }",
			New:  "State { return Idle }",
		}},
	}, {
		Name: "value-of-before",
		Rule: "A wait takes no value of a holder whose token the registration has found.",
		Edits: []Edit{{
			File: "internal/waits/value.go",
			Old:  " && in.stood[i] != v.Holder",
			New:  "",
		}},
	}, {
		Name: "value-for-late-joiners",
		Rule: "A goroutine that joins a call after its registration gets no value of another process.",
		Edits: []Edit{{
			File: "internal/flight/flight.go",
			Old:  "true, f.sealed",
			New:  "true, f.joined",
		}},
	}, {
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
			File: "internal/waits/slots.go",
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
		Name: "ping-unanswered",
		Rule: "A ping that is not answered does not count as sent before a grant.",
		Edits: []Edit{{
			File: "internal/master/grant.go",
			Old:  "\tk.sent.Push(m)\n",
			New:  "\tk.sent.Push(m)\n\tk.last = m.at\n",
		}},
	}, {
		Name: "record-time-unchecked",
		Rule: "A grant counts only if the record of the memory has the time that the client knows.",
		Edits: []Edit{{
			File: "internal/guard/guard.go",
			Old:  "return there && drift.Compare(at, mark, now) == 0",
			New:  "drift.Compare(at, mark, now)\n\treturn there",
		}},
	}, {
		Name: "run-unchecked",
		Rule: "A grant counts only if the server's process is the one that the client knows.",
		Edits: []Edit{{
			File: "internal/guard/guard.go",
			Old:  "g.known == nil || in.Run != g.known.Record.Run || ",
			New:  "g.known == nil || ",
		}},
	}, {
		Name: "mark-in-quarantine",
		Rule: "A grant counts only if it was made after the quarantine of the master.",
		Edits: []Edit{{
			File: "internal/guard/guard.go",
			Old:  " || mark.Time().Before(g.ended):",
			New:  ":",
		}},
	}, {
		Name: "poll-extends",
		Rule: "A poll does not extend the key that the claim was granted.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "  if held == token then\n    return acquired(",
			New:  "  if held == token then\n    redis.pcall('PEXPIRE', key, ttl)\n    left = tonumber(ttl)\n    return acquired(",
		}},
	}, {
		Name: "grants-to-the-dead",
		Rule: "A client that has ended is not granted the lock.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "front[next]) == 0 then",
			New:  "front[next]) == -1 then",
		}, {
			File: "internal/wire/batch.lua",
			Old:  "elseif not counts.err and tonumber(counts[2 * i]) == 0 then",
			New:  "elseif counts == nil then",
		}},
	}, {
		Name: "no-yielding",
		Rule: "Of claims that have split the votes, the others are given up in favour of the best.",
		Edits: []Edit{{
			File: "internal/waits/verdict.go",
			Old:  "\t\treturn Yields\n",
			New:  "\t\treturn Stays\n",
		}},
	}, {
		Name: "late-poll-ignored",
		Rule: "A vote of a lease ends when a late poll finds that the master has lost the key.",
		Edits: []Edit{{
			File: "internal/waits/ballot.go",
			Old:  "\tdoubt(i)\n\treturn false\n",
			New:  "\treturn false\n",
		}},
	}, {
		Name: "commit-extends-nothing",
		Rule: "The second round of a fence lets the keys live for the TTL.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "    if not err and last == fixed then\n      redis.pcall('PEXPIRE', key, ttl)\n    end\n",
			New:  "",
		}},
	}, {
		Name: "old-number-committed",
		Rule: "A number that is older than MaxTTL is not committed.",
		Edits: []Edit{{
			File: "internal/fence/fence.go",
			Old:  "if number < At(start.Add(-maxTTL)) {",
			New:  "if false {",
		}},
	}, {
		Name: "fence-of-slots-forgotten",
		Rule: "A master gives a fence of permits above the last.",
		Edits: []Edit{{
			File: "internal/wire/slots.lua",
			Old:  "last = math.max(last + 1, math.min(number, now + second))",
			New:  "last = math.min(number, now + second)",
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
