package defects

// ofSets are defects of locks of several names.
var ofSets = []Defect{
	{
		Name: "part-of-a-set",
		Rule: "A master grants several names only if each of them is free.",
		Edits: []Edit{{
			File: "internal/wire/set.lua",
			Old:  "    local value = redis.pcall('GET', key) -- a table, if the value is not a lock\n",
			New:  "    local value = i == 1 and redis.pcall('GET', key)\n",
		}},
	}, {
		Name: "renewed-where-any",
		Rule: "A lease of several names is renewed only where all keys hold its token.",
		Edits: []Edit{{
			File: "internal/wire/set.go",
			Old:  "\treturn ranks[a.Outcome] > ranks[b.Outcome]\n",
			New:  "\treturn ranks[a.Outcome] > ranks[b.Outcome] != (k == Renew)\n",
		}},
	}, {
		Name: "parts-not-undone",
		Rule: "When single names become one lease, their keys are deleted where that was refused.",
		Edits: []Edit{{
			File: "internal/engine/names.go",
			Old:  "\t\t\tleaveParts(w, parts)\n",
			New:  "",
		}},
	}, {
		Name: "merger-kept",
		Rule: "A claim for several names that took over single ones is released if it fails.",
		Edits: []Edit{{
			File: "internal/engine/names.go",
			Old:  "\t\t\tc.group.Send(wire.Release, w.set.merged)\n",
			New:  "",
		}},
	}, {
		Name: "parts-live-on",
		Rule: "The leases of single names end before they become one lease.",
		Edits: []Edit{{
			File: "internal/engine/names.go",
			Old:  "\t\tif !t.end(ErrReleased) { // from now on, nothing of it but its release is sent\n\t\t\treturn true\n\t\t}\n",
			New:  "",
		}},
	},
}
