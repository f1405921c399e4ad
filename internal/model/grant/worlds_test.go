package grant

// The worlds. Those that begin with a holder have few acquisitions left.

// A lock with one queue: exclusion, and fences.
var (
	locksQ     = world{masters: 3, roles: "QQ", room: 3, leaves: true, polls: true, loses: true, expires: true}
	behindQ    = world{masters: 3, roles: "QQ", room: 3, leaves: true, loses: true, expires: true}
	mixedQ     = world{masters: 3, roles: "QQ", room: 2, calls: 2, held: true, leaves: true, sets: true, loses: true, expires: true}
	crowdQ     = world{masters: 3, roles: "QQQ", room: 2, calls: 1, held: true, leaves: true, polls: true, expires: true}
	forgetfulQ = world{masters: 3, roles: "QQ", room: 2, leaves: true, polls: true, loses: true, expires: true, restarts: 1}
	restoredQ  = world{masters: 3, roles: "QQ", room: 2, calls: 1, held: true, leaves: true, loses: true, expires: true, restarts: 1, snapshots: true}
	thirdQ     = world{masters: 3, roles: "QQQ", room: 2, calls: 1, held: true, leaves: true, polls: true, expires: true, restarts: 1}
	renewedQ   = world{masters: 3, roles: "QQ", room: 2, calls: 2, held: true, leaves: true, loses: true, expires: true, renewals: true}
	shakenQ    = world{masters: 3, roles: "QQ", room: 2, calls: 1, held: true, polls: true, expires: true, renewals: true, restarts: 1}
	asleepQ    = world{masters: 3, roles: "QQ", room: 3, calls: 1, held: true, polls: true, latePolls: true, renewals: true, sleeps: true}
	agedQ      = world{masters: 3, roles: "QQ", room: 2, calls: 1, held: true, expires: true, ages: true}
	raisedQ    = world{masters: 3, roles: "QQ", room: 2, calls: 1, held: true, expires: true, ages: true, fences: true, spread: 1}
	fencedQ    = world{masters: 3, roles: "QQ", room: 2, calls: 1, held: true, leaves: true, expires: true, fences: true, spread: 1}
	anewQ      = world{masters: 3, roles: "QQ", room: 2, calls: 1, held: true, leaves: true, expires: true, fences: true, spread: 1, restarts: 1}
	numberedQ  = world{masters: 3, roles: "QQ", room: 2, calls: 1, held: true, polls: true, expires: true, fences: true, spread: 1, restarts: 1}
)

// Progress in one queue, without polls: what a lock that is free waits for is under way, or a short timer.
var (
	pairQ     = world{masters: 2, roles: "QQ", room: 4, calls: 3, live: true, settles: true, sets: true}
	threeQ    = world{masters: 3, roles: "QQ", room: 4, calls: 3, live: true, settles: true}
	queueQ    = world{masters: 1, roles: "QQQ", room: 4, calls: 4, live: true, settles: true, leaves: true, opens: true}
	mortalQ   = world{masters: 1, roles: "QQQ", room: 4, calls: 4, live: true, settles: true, crashes: 1, allDie: true}
	slowQ     = world{masters: 1, roles: "QQQ", room: 4, calls: 4, live: true, settles: true, leaves: true, silences: 3}
	slowerQ   = world{masters: 2, roles: "QQ", room: 4, calls: 3, live: true, settles: true, silences: 2}
	haltedQ   = world{masters: 1, roles: "QQQ", room: 4, calls: 4, live: true, settles: true, crashes: 1, allDie: true, stops: true}
	streetQ   = world{masters: 1, roles: "QQB", room: 3, live: true, settles: true, opens: true, busy: true, prompt: true}
	apartQ    = world{masters: 3, roles: "QQQ", room: 4, calls: 3, live: true, settles: true, cut: true} // two clients reach one master each
	maimedQ   = world{masters: 3, roles: "QQ", room: 4, calls: 3, live: true, settles: true, dead: true}
	crippledQ = world{masters: 3, roles: "QQ", room: 3, leaves: true, loses: true, expires: true, dead: true}
	loneQ     = world{masters: 1, roles: "QB", room: 3, live: true, settles: true, opens: true, busy: true, prompt: true}
	twiceQ    = world{masters: 3, roles: "QQ", room: 3, calls: 2, held: true, leaves: true}
)

// A lock with lanes: exclusion.
var (
	pair      = world{masters: 3, roles: "RW", room: 2, leaves: true, polls: true, loses: true, expires: true}
	behind    = world{masters: 3, roles: "RW", room: 3, leaves: true, expires: true}
	crowdR    = world{masters: 3, roles: "WRR", room: 2, calls: 1, held: true, polls: true, expires: true}
	crowdW    = world{masters: 3, roles: "RWR", room: 2, calls: 1, held: true, polls: true, expires: true}
	three     = world{masters: 3, roles: "RRW", room: 2, calls: 3, expires: true}
	writers   = world{masters: 3, roles: "RWW", room: 2, calls: 3, expires: true}
	sharing   = world{masters: 3, roles: "RRW", room: 2, calls: 3, expires: true, lingers: true}
	dying     = world{masters: 3, roles: "RW", room: 2, leaves: true, loses: true, expires: true, crashes: 2, allDie: true}
	forgetful = world{masters: 3, roles: "RW", room: 2, leaves: true, polls: true, expires: true, restarts: 1}
	restored  = world{masters: 3, roles: "WR", room: 2, calls: 1, held: true, leaves: true, loses: true, expires: true, restarts: 1, snapshots: true}
	thirdW    = world{masters: 3, roles: "WRW", room: 2, held: true, expires: true, restarts: 1, polls: true}
	thirdR    = world{masters: 3, roles: "RWR", room: 2, held: true, expires: true, restarts: 1, polls: true}
	renewed   = world{masters: 3, roles: "WR", room: 2, calls: 2, held: true, leaves: true, loses: true, expires: true, renewals: true}
	shaken    = world{masters: 3, roles: "RW", room: 2, expires: true, restarts: 1, renewals: true}
	asleep    = world{masters: 3, roles: "RW", room: 2, renewals: true, repeats: true, sleeps: true, lingers: true, expires: true}
	asleepS   = world{masters: 3, roles: "RRW", room: 2, calls: 3, renewals: true, sleeps: true}
	asleepR   = world{masters: 3, roles: "RW", room: 3, calls: 1, held: true, polls: true, latePolls: true, renewals: true, sleeps: true}
	asleepW   = world{masters: 3, roles: "WR", room: 3, calls: 1, held: true, polls: true, latePolls: true, renewals: true, sleeps: true}
	agedR     = world{masters: 3, roles: "WR", room: 2, calls: 1, held: true, expires: true, ages: true}
	agedW     = world{masters: 3, roles: "RW", room: 2, calls: 1, held: true, expires: true, ages: true}
)

// Fences of readers and writers.
var (
	raisedR  = world{masters: 3, roles: "WR", room: 2, calls: 1, held: true, expires: true, ages: true, fences: true, spread: 1}
	raisedW  = world{masters: 3, roles: "RW", room: 2, calls: 1, held: true, expires: true, ages: true, fences: true, spread: 1}
	fencedR  = world{masters: 3, roles: "WR", room: 2, calls: 1, held: true, leaves: true, expires: true, fences: true, spread: 1}
	fencedW  = world{masters: 3, roles: "RW", room: 2, calls: 1, held: true, leaves: true, expires: true, fences: true, spread: 1}
	spread   = world{masters: 3, roles: "WR", room: 2, calls: 1, held: true, leaves: true, expires: true, fences: true, spread: 3}
	fencedRR = world{masters: 3, roles: "WRR", room: 2, calls: 1, held: true, expires: true, fences: true, spread: 2, rises: true}
	fencedS  = world{masters: 3, roles: "RWR", room: 2, calls: 1, held: true, expires: true, fences: true, spread: 1}
	polledR  = world{masters: 3, roles: "WR", room: 2, calls: 1, held: true, polls: true, expires: true, fences: true, spread: 1}
	anewR    = world{masters: 3, roles: "WR", room: 2, calls: 1, held: true, leaves: true, expires: true, fences: true, spread: 1, restarts: 1}
	anewW    = world{masters: 3, roles: "RW", room: 2, calls: 1, held: true, leaves: true, expires: true, fences: true, spread: 1, restarts: 1}
	numberR  = world{masters: 3, roles: "WR", room: 2, calls: 1, held: true, polls: true, expires: true, fences: true, spread: 1, restarts: 1}
	numberW  = world{masters: 3, roles: "RW", room: 2, calls: 1, held: true, polls: true, expires: true, fences: true, spread: 1, restarts: 1}
)

// Progress with lanes, without polls: what a lock that is free waits for is under way, or a short timer.
var (
	live     = world{masters: 3, roles: "RW", room: 4, calls: 3, live: true, settles: true}
	kept     = world{masters: 3, roles: "RW", room: 4, calls: 3, live: true, settles: true, readersIn: true}
	queueR   = world{masters: 1, roles: "RRW", room: 4, calls: 4, live: true, settles: true, leaves: true, readersIn: true}
	queueW   = world{masters: 1, roles: "RWW", room: 4, calls: 4, live: true, settles: true, leaves: true, readersIn: true}
	keptW    = world{masters: 1, roles: "RRW", room: 4, calls: 4, live: true, settles: true, leaves: true, writersIn: true}
	keptBoth = world{masters: 1, roles: "RWW", room: 4, calls: 4, live: true, settles: true, leaves: true, readersIn: true, writersIn: true}
	far      = world{masters: 1, roles: "RRW", room: 4, calls: 4, live: true, settles: true, leaves: true, stales: 2}
	farAll   = world{masters: 3, roles: "WR", room: 4, calls: 2, live: true, settles: true, stales: 3}
	open     = world{masters: 1, roles: "RWW", room: 4, calls: 4, live: true, settles: true, leaves: true, opens: true}
	undone   = world{masters: 2, roles: "RT", room: 4, calls: 3, live: true, settles: true, lapses: true}
	lapsing  = world{masters: 1, roles: "RRT", room: 4, calls: 4, live: true, settles: true, leaves: true, lapses: true}
	lapsingW = world{masters: 1, roles: "RWT", room: 4, calls: 4, live: true, settles: true, leaves: true, lapses: true}
	maimed   = world{masters: 3, roles: "RW", room: 4, calls: 3, live: true, settles: true, dead: true}
	maimedRR = world{masters: 3, roles: "RRW", room: 4, calls: 3, live: true, settles: true, dead: true}
	apartR   = world{masters: 3, roles: "WRR", room: 4, calls: 3, live: true, settles: true, cut: true}
	mortalW  = world{masters: 1, roles: "RRW", room: 4, calls: 4, live: true, settles: true, readersIn: true, crashes: 1, deadWrites: true}
	mortalR  = world{masters: 1, roles: "RRW", room: 4, calls: 4, live: true, settles: true, crashes: 1}
	haltedW  = world{masters: 1, roles: "RRW", room: 4, calls: 4, live: true, settles: true, readersIn: true, crashes: 1, deadWrites: true, stops: true}
	haltedR  = world{masters: 1, roles: "RRW", room: 4, calls: 4, live: true, settles: true, crashes: 1, stops: true}
	slow     = world{masters: 1, roles: "RRW", room: 4, calls: 4, live: true, settles: true, leaves: true, silences: 2}
	slowW    = world{masters: 1, roles: "RWW", room: 4, calls: 4, live: true, settles: true, leaves: true, silences: 2}
)

// Turns with lanes: clients that come again and again.
var (
	streetR    = world{masters: 1, roles: "RRW", room: 3, live: true, settles: true, busy: true, prompt: true}
	streetW    = world{masters: 1, roles: "RWW", room: 3, live: true, settles: true, busy: true, prompt: true}
	streetT    = world{masters: 1, roles: "WWT", room: 3, live: true, settles: true, busy: true, prompt: true, opens: true}
	streetTR   = world{masters: 1, roles: "RRT", room: 3, live: true, settles: true, busy: true, prompt: true}
	streetRT   = world{masters: 1, roles: "RWT", room: 3, live: true, settles: true, busy: true, prompt: true, opens: true}
	streetOpen = world{masters: 1, roles: "WWt", room: 3, live: true, settles: true, busy: true, prompt: true, opens: true}
	streetMt   = world{masters: 1, roles: "RWt", room: 3, live: true, settles: true, busy: true, prompt: true, opens: true}
	loneT      = world{masters: 1, roles: "WT", room: 3, live: true, settles: true, busy: true, prompt: true, opens: true}
	loneS      = world{masters: 1, roles: "RS", room: 3, live: true, settles: true, busy: true, prompt: true, opens: true}
)
