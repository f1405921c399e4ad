package defects

// ofClients are defects of what the goroutines of a Client share: kept locks, and values.
var ofClients = []Defect{
	{
		Name: "kept-clocks-unread",
		Rule: "A goroutine that enters a kept lock reads the clocks after it has taken it.",
		Edits: []Edit{{
			File: "internal/engine/kept.go",
			Old:  "enters.Ahead(t.core.clock) && !e.state",
			New:  "!e.state",
		}},
	}, {
		Name: "kept-recall-dropped",
		Rule: "A recall that comes while a goroutine holds the lock is heeded by its Unlock.",
		Edits: []Edit{{
			File: "internal/engine/kept.go",
			Old:  "if mine && !e.mark(occupancy.Draining) {",
			New:  "if mine && !e.giveBack() {",
		}},
	}, {
		Name: "kept-beside-others",
		Rule: "A lock is not kept beside a goroutine that it cannot be handed to.",
		Edits: []Edit{{
			File: "internal/engine/kept.go",
			Old:  "e.core.gates.Waiting(e.key) || !k.vacate(s)",
			New:  "!k.vacate(s)",
		}},
	}, {
		Name: "kept-loss-untold",
		Rule: "A loss takes a kept lock from its keeper before the release is queued.",
		Edits: []Edit{{
			File: "internal/engine/entrance.go",
			Old:  "\tif e.tenure.Load() != t {\n",
			New:  "\tif e.tenure.Load() != nil {\n",
		}},
	}, {
		Name: "kept-begun-late",
		Rule: "A lease that is lost before others can enter it is not entered.",
		Edits: []Edit{{
			File: "internal/engine/entrance.go",
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
			Old:  " && at.stood != said.Holder",
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
	},
}
