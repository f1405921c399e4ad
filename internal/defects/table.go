package defects

import "slices"

// All is the table of defects. A test checks that each edit's text still occurs in the source. If
// you change that source, change the edit, too.
var All = slices.Concat(ofGuard, ofLeases, ofWaits, ofSets, ofClients, ofSlots)

// ofWaits are defects of claims, grants and readers.
var ofWaits = []Defect{
	{
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
			Old:  "      redis.pcall('PUBLISH', 'redlock:wake:' .. parse(found.m), token .. ' ' .. key)\n",
			New:  "",
		}, {
			File: "internal/wire/batch.lua",
			Old:  "if redis.pcall('PUBLISH', 'redlock:wake:' .. client, token .. ' ' .. key) == 0 or redis",
			New:  "if redis",
		}, {
			File: "internal/wire/batch.lua",
			Old:  "redis.pcall('PUBLISH', 'redlock:wake:' .. client, message)\n",
			New:  "redis.pcall('PUBLISH', 'redlock:nobody', message)\n",
		}, {
			File: "internal/wire/queue.lua",
			Old:  "return redis.pcall('PUBLISH', 'redlock:wake:' .. client, sign",
			New:  "return redis.pcall('PUBLISH', 'redlock:nobody', sign",
		}},
	}, {
		Name: "grant-from-receipt",
		Rule: "A grant counts from the last ping that was answered before its message.",
		Edits: []Edit{{
			File: "internal/master/grant.go",
			Old:  "told.Next, l.marks.last, sure}",
			New:  "told.Next, l.cfg.Servers.Client.Clock(), sure}",
		}, { // otherwise the clock of the master shows that the grant is older than its receipt
			File: "internal/master/grant.go",
			Old:  "return l.sure(told.Memory, since) }",
			New:  "_ = since; return l.sure(told.Memory, l.marks.last) }",
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
		Name: "grant-unsure",
		Rule: "A grant counts only if it was made in the memory that is known, after its quarantine.",
		Edits: []Edit{{
			File: "internal/waits/claim.go",
			Old:  "if !g.Sure(g.Mark) {",
			New:  "if false {",
		}},
	}, {
		Name: "given-up-counts",
		Rule: "A grant counts only for the claim whose token it names: one that was given up never counts.",
		Edits: []Edit{{
			File: "internal/waits/claim.go",
			Old:  " && in.claim.Token() == token {",
			New:  " {",
		}, { // otherwise the clock of the master shows that the grant is older than the new claim
			File: "internal/waits/claim.go",
			Old:  "if c.Began.Time().After(g.Mark.Time()) {",
			New:  "if false {",
		}},
	}, {
		Name: "token-twice",
		Rule: "Each claim has a token of its own.",
		Edits: []Edit{{
			File: "internal/engine/contend.go",
			Old:  "type contender struct {\n",
			New:  "type contender struct {\n\ttoken string\n",
		}, {
			File: "internal/engine/contend.go",
			Old:  "\tof, by := l.kind.claimOf(w, waited)\n",
			New:  "\tof, by := l.kind.claimOf(w, waited)\n\tq.token = cmp.Or(q.token, of.Token)\n\tof.Token = q.token\n",
		}},
	}, {
		Name: "grant-overwrites",
		Rule: "A grant sets the key only where there is none.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "reply = redis.pcall('SET', key, claim, 'PX', g, 'NX')",
			New:  "reply = redis.pcall('SET', key, claim, 'PX', g)",
		}, {
			File: "internal/wire/batch.lua",
			Old:  "  local n = held and -1 or 0\n  if held == token then",
			New:  "  local n = 0\n  if held == token then",
		}},
	}, {
		Name: "latest-vote",
		Rule: "A lease that was granted ends with the first of the votes that it rests on.",
		Edits: []Edit{{
			File: "internal/waits/count.go",
			Old:  "s.quorum[need-1].left",
			New:  "s.quorum[0].left",
		}},
	}, {
		Name: "keeps-to-itself",
		Rule: "A claim that is given up passes on what it was granted.",
		Edits: []Edit{{
			File: "internal/engine/contend.go",
			Old:  "\tc.group.Send(how, q.claim.SentClaim)\n",
			New:  "\tc.group.Send(q.claim.ReleasingFree(1<<len(c.masters)-1), q.claim.SentClaim)\n",
		}},
	}, {
		Name: "minority-kept",
		Rule: "A claim that fewer than a quorum of masters answer is released.",
		Edits: []Edit{{
			File: "internal/waits/verdict.go",
			Old:  "case !f.Answered || len(f.Keys) == 0 && f.Granted > 0:",
			New:  "case f.Answered && len(f.Keys) == 0 && f.Granted > 0:",
		}},
	}, {
		Name: "lockstep",
		Rule: "A claim arrives at all masters of a quorum at one moment, and clients that have split the votes sleep for random times.",
		Edits: []Edit{{
			File: "internal/quorum/together.go",
			Old:  "wait >= worthWaiting {",
			New:  "wait >= worthWaiting && false {",
		}, {
			File: "internal/engine/acquire.go",
			Old:  "		q.resume = q.resume.Add(rand.N(c.group.Distance() + 1))\n",
			New:  "		q.resume = q.resume.Add(rand.N(time.Duration(1)))\n",
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
			File: "internal/engine/readers.go",
			Old:  "\tif !e.state.Enter(true) {\n\t\treturn nil\n\t}\n\tt := e.tenure.Load()\n\tif t.snapshot.Load().enters.Ahead(e.core.clock) && ",
			New:  "\tt := e.tenure.Load()\n\tfresh := t != nil && t.snapshot.Load().enters.Ahead(e.core.clock)\n\truntime.Gosched()\n\tif !e.state.Enter(true) {\n\t\treturn nil\n\t}\n\tt = e.tenure.Load()\n\tif fresh && ",
		}, {
			File: "internal/engine/readers.go",
			Old:  "\t\"context\"\n",
			New:  "\t\"context\"\n\t\"runtime\"\n",
		}},
	}, {
		Name: "recall-message-ignored",
		Rule: "Readers leave when a message asks them to.",
		Edits: []Edit{{
			File: "internal/engine/core.go",
			Old:  "\t\treturn l.core.entrances.recallReaders(key)\n",
			New:  "\t\treturn true\n",
		}},
	}, {
		Name: "recall-vote-ignored",
		Rule: "Readers that are let in while a writer waits keep further ones out.",
		Edits: []Edit{{
			File: "internal/engine/readers.go",
			Old:  "\t\tif r.early || w.try.round.Any(",
			New:  "\t\tif r.early || false && w.try.round.Any(",
		}},
	}, {
		Name: "recall-renewal-ignored",
		Rule: "Readers learn of a writer from the answer to their renewal.",
		Edits: []Edit{{
			File: "internal/engine/tenure.go",
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
			Old:  "  ofLease = ofLease and n == 1\n",
			New:  "  ofLease = false\n",
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
			Old:  "function() prolong(key, token, ttl, now) end)",
			New:  "function() end)",
		}},
	}, {
		Name: "reader-number-at-least",
		Rule: "A master acknowledges the number of a reader only if it is exactly the last one.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "  return fences().commit(key, fixed, ",
			New:  "  return fences().raiseTo(key, fixed) and {1, fixed} or fences().commit(key, fixed, ",
		}},
	}, {
		Name: "granted-to-one-reader",
		Rule: "After a writer, all readers that wait are granted the lock.",
		Edits: []Edit{{
			File: "internal/wire/readers.lua",
			Old:  "redis.pcall('ZRANGE', q.name, 0, budget - 1, 'WITHSCORES')",
			New:  "redis.pcall('ZRANGE', q.name, 0, 0, 'WITHSCORES')",
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
		Name: "ping-unanswered",
		Rule: "A ping that is not answered does not count as sent before a grant.",
		Edits: []Edit{{
			File: "internal/master/grant.go",
			Old:  "\tk.sent.Push(m)\n",
			New:  "\tk.sent.Push(m)\n\tk.last = m.at\n",
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
			Old:  "if heard == 0 then",
			New:  "if heard == false then",
		}, {
			File: "internal/wire/queue.lua",
			Old:  "elseif not counts.err and tonumber(counts[2 * i]) == 0 then",
			New:  "elseif counts == nil then",
		}},
	}, {
		Name: "no-yielding",
		Rule: "Of claims that have split the votes, the others are given up in favour of the best.",
		Edits: []Edit{{
			File: "internal/waits/verdict.go",
			Old:  "\treturn Yields, nil\n",
			New:  "\treturn Stays, nil\n",
		}},
	}, {
		Name: "late-poll-ignored",
		Rule: "A vote of a lease ends when a late poll finds that the master has lost the key.",
		Edits: []Edit{{
			File: "internal/waits/claim.go",
			Old:  "\t\treturn c.doubt\n",
			New:  "\t\treturn nil\n",
		}},
	}, {
		Name: "commit-extends-nothing",
		Rule: "The second round of a fence lets the keys live for the TTL.",
		Edits: []Edit{{
			File: "internal/wire/batch.lua",
			Old:  "function() redis.pcall('PEXPIRE', key, ttl) end)",
			New:  "function() end)",
		}},
	},
}
