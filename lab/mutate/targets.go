package main

// A step is one run of tests.
type step struct {
	pkg, tests string // the package, and a regular expression of tests; empty: all
}

// A target is a file, and the steps that are to notice what is changed in it, the quick ones first.
type target struct {
	file  string
	steps []step
}

var (
	inside  = step{"./internal/engine", ""}
	whole   = step{"./internal/contract", ""}
	guard   = step{"./internal/guard", ""}
	master  = step{"./internal/master", ""}
	wire    = step{"./internal/wire", ""}
	scripts = step{"./internal/wire", "Reader|Writer|Announce|Script|Grant|Queue|Several|Fence|Key|Recall"}
	quorum  = step{"./internal/quorum", ""}
	readers = step{"./internal/contract", "RW|Read|Writer|Lockers|Fence"}
	kept    = step{"./internal/contract", "Kept|Keep|Recall"}
	flights = step{"./internal/contract", "OneCall|Value|Caller|Landing|Goroutine|SingleFlight|LostLease"}
	permits = step{"./internal/contract/semaphores", "Permit|Semaphore|Slot|Goroutines|Limit|Claim"}
	sets    = step{"./internal/contract", "Name|Set|Several|Lockers|OneLease|Merger"}
)

// complete are the files all of whose mutants have been tried. In the others, somebody still has to look at the survivors.
var complete = []string{
	"internal/wire/slots.lua", "internal/wire/fences.lua", "internal/wire/recall.lua",
	"internal/wire/set.lua", "internal/wire/flight.lua", "internal/wire/taken.lua",
	"internal/waits/slots.go", "internal/waits/delays.go", "internal/waits/claim.go", "internal/waits/count.go", "internal/waits/value.go", "internal/flight/flight.go", "internal/waits/verdict.go",
	"internal/fence/fence.go", "internal/fence/slots.go", "internal/holding/semaphore.go",
	"internal/quorum/round.go", "internal/quorum/together.go", "internal/quorum/limit.go", "internal/quorum/tally.go", "internal/quorum/ballot.go", "internal/bounds/bounds.go",
	"internal/occupancy/occupancy.go", "internal/recent/order.go", "internal/turns/turns.go", "internal/turns/unkept.go",
}

var targets = []target{
	{"internal/wire/readers.lua", []step{scripts, readers}},
	{"internal/wire/slots.lua", []step{wire, permits}},
	{"internal/wire/taken.lua", []step{{"./internal/wire", "Look"}}},
	{"internal/wire/taken.go", []step{{"./internal/wire", "Look"}}},
	{"internal/wire/slots.go", []step{wire, permits}},
	{"internal/waits/slots.go", []step{{"./internal/waits", ""}, permits}},
	{"internal/holding/semaphore.go", []step{{"./internal/holding", ""}}},
	{"internal/engine/permits.go", []step{inside, permits, {"./internal/contract", "Permit"}}},
	{"redlocktest/slots.go", []step{{"./redlocktest", "Slot|Permit"}}},
	{"cmd/redlock/status_fields.go", []step{{"./cmd/redlock", "Status|Table|Slot|Permit|Document|Semaphore"}}},
	{"cmd/redlock/run_lease.go", []step{{"./cmd/redlock", "Limit|Permit|Runs|Variable|Environment"}}},
	{"internal/wire/set.lua", []step{scripts, sets}},
	{"internal/wire/batch.lua", []step{wire, master, whole}},
	{"internal/wire/queue.lua", []step{wire, master, whole, permits}},
	{"internal/wire/fences.lua", []step{scripts, whole}},
	{"internal/wire/recall.lua", []step{scripts, kept}},
	{"internal/wire/flight.lua", []step{{"./internal/wire", "Value"}}},
	{"internal/waits/value.go", []step{{"./internal/waits", ""}, flights}},
	{"internal/flight/flight.go", []step{{"./internal/flight", ""}, flights}},
	{"internal/incarnation/incarnation.lua", []step{{"./internal/incarnation", ""}, master, {"./internal/contract", "Guard|Restart|Memory"}}},
	{"internal/guard/guard.go", []step{guard, master, whole}},
	{"internal/guard/probe.go", []step{guard, master, whole}},
	{"internal/master/grant.go", []step{master, whole}},
	{"internal/wire/info.go", []step{wire, master, whole}},
	{"internal/wire/message.go", []step{wire, master, whole}},
	{"internal/guard/clocks.go", []step{guard, master, whole}},
	{"internal/quorum/ballot.go", []step{quorum, whole}},
	{"internal/quorum/limit.go", []step{quorum, whole}},
	{"internal/quorum/distance.go", []step{quorum, whole}},
	{"internal/quorum/round.go", []step{quorum, whole}},
	{"internal/quorum/tally.go", []step{quorum, whole}},
	{"internal/quorum/together.go", []step{quorum, whole}},
	{"internal/bounds/bounds.go", []step{{"./internal/bounds", ""}, inside, whole}},
	{"internal/fence/fence.go", []step{{"./internal/fence", ""}, whole}},
	{"internal/fence/slots.go", []step{{"./internal/fence", ""}, permits}},
	{"internal/waits/verdict.go", []step{{"./internal/waits", ""}, whole}},
	{"internal/waits/delays.go", []step{{"./internal/waits", ""}, whole}},
	{"internal/waits/pace.go", []step{{"./internal/waits", ""}, whole}},
	{"internal/waits/unused.go", []step{{"./internal/waits", ""}, inside}},
	{"internal/waits/claim.go", []step{{"./internal/waits", ""}, inside, whole}},
	{"internal/waits/count.go", []step{{"./internal/waits", ""}, inside, whole}},
	{"internal/waits/place.go", []step{{"./internal/waits", ""}, whole}},
	{"internal/waits/census.go", []step{{"./internal/waits", ""}, whole}},
	{"internal/waits/waits.go", []step{inside, whole}},
	{"internal/renew/validity.go", []step{{"./internal/renew", ""}, whole}},
	{"internal/turns/turns.go", []step{{"./internal/turns", ""}, whole}},
	{"internal/turns/unkept.go", []step{{"./internal/turns", ""}, kept}},
	{"internal/engine/contend.go", []step{inside, whole}},
	{"internal/engine/failure.go", []step{inside, whole}},
	{"internal/engine/lease.go", []step{inside, flights, whole}},
	{"internal/engine/entrance.go", []step{inside, kept, readers, whole}},
	{"internal/engine/readers.go", []step{inside, readers, whole}},
	{"internal/engine/kept.go", []step{inside, kept, whole}},
	{"internal/occupancy/occupancy.go", []step{{"./internal/occupancy", ""}, kept, readers, whole}},
	{"internal/recent/order.go", []step{{"./internal/recent", ""}, inside, kept, whole}},
	{"internal/engine/tenure.go", []step{inside, whole}},
	{"internal/fence/commit.go", []step{{"./internal/fence", ""}, whole, permits}},
}
