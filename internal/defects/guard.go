package defects

// ofGuard are defects of the restart guard, and whose memory a vote comes from.
var ofGuard = []Defect{
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
		Name: "own-maxttl",
		Rule: "A quarantine follows the largest MaxTTL that any client of the masters has declared.",
		Edits: []Edit{{
			File: "internal/guard/inspect.go",
			Old:  "	i.servers.declare(found.Record.MaxTTL)\n",
			New:  "",
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
		Name: "grant-without-run",
		Rule: "A grant that does not tell the run_id is no vote.",
		Edits: []Edit{{
			File: "internal/guard/guard.go",
			Old:  "case in.Run == wire.NoRun:",
			New:  "case in.Run == \"\":",
		}},
	},
}
