------------------------------- MODULE Redlock -------------------------------
(***************************************************************************)
(* The rules of redlock that keep a lock safe: acquisition, fences,        *)
(* renewal, heal, release, and the quarantine of masters that have lost    *)
(* their memory. It says what internal/model says in Go: the README of     *)
(* this directory lists the rules, what happens without each, and the      *)
(* functions that keep it.                                                 *)
(*                                                                         *)
(* Time has no numbers. A lease may end at any step. A key stays at its    *)
(* master until the round that set or extended it last has ended, or was   *)
(* superseded by a later round of the same lease; after that it may go at  *)
(* any moment. A quarantine ends at any moment after every round that was  *)
(* open at the restart has ended or was superseded.                        *)
(*                                                                         *)
(* Each constant from NoQuarantine on strikes out one rule if it is TRUE.  *)
(* The configurations in holds/ have none of them, those in struck/ one.   *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Sequences, TLC

CONSTANTS
    Masters, Clients,   \* sets of model values
    Free, Orphan,       \* model values: nobody's key, the key of a client that has died
    Room,               \* commands under way from one client to one master, at most
    Attempts,           \* acquisitions, all told; 0: any number, for worlds without Fences
    Restarts,           \* losses of memory, all told
    Spread,             \* proposals differ by fewer numbers than this
    \* What may happen:
    Snapshots,          \* a master may wake with a key that it had before
    Probes,             \* the probe is executed some time after its vote
    Crashes,            \* clients may die, their releases unsent
    Renewals,           \* leases are renewed, and missing keys are healed
    Sleeps,             \* a holder may be stopped until its keys are gone, and no clock shows it
    OneByOne,           \* it may be stopped at any moment, and its keys go one by one
    Fences,             \* acquisitions are numbered
    Vanish,             \* keys may vanish at any moment, so that only fences can be right
    \* The rules, struck out by TRUE:
    NoQuarantine, ShortQuarantine, HeldOnly, CountQuarantined,
    CountAfterEnd, KeepVotes, HealAtOnce, HealForRetry,
    HealAfterRelease, ReleaseOvertakes, ForgetRefused, DropOwed,
    AnyAck, NoClock, SlowAcquisition, HealKeepsFence

VARIABLES master, client, world
vars == <<master, client, world>>

-----------------------------------------------------------------------------
(* Values *)

Max(a, b) == IF a > b THEN a ELSE b
Quorum(set) == 2 * Cardinality(set) > Cardinality(Masters)

Command(kind, fence) == [kind |-> kind, fence |-> fence]
Has(queue, kind) == \E i \in DOMAIN queue : queue[i].kind = kind
Without(queue, kind) == SelectSeq(queue, LAMBDA k : k.kind # kind)

\* A command is queued if there is room for it and for the release that follows.
Sent(queue, command) == IF Len(queue) + 2 <= Room THEN Append(queue, command) ELSE queue

\* A release directly behind another one would do nothing.
WithRelease(queue) ==
    IF queue # <<>> /\ queue[Len(queue)].kind = "release"
    THEN queue
    ELSE Append(queue, Command("release", 0))

\* A heal takes the place of the extension whose answer it follows.
WithHeal(queue, fence) ==
    IF Has(queue, "extend")
    THEN LET at == CHOOSE i \in DOMAIN queue :
                       /\ queue[i].kind = "extend"
                       /\ \A j \in 1..(i - 1) : queue[j].kind # "extend"
         IN [queue EXCEPT ![at] = Command("heal", fence)]
    ELSE Sent(queue, Command("heal", fence))

\* A client's undecided round, and the round that its lease rests on.
RoundOf(c) == <<"round", c>>
LeaseOf(c) == <<"lease", c>>

AtRest == [phase |-> "idle", want |-> 0, fence |-> 0, floor |-> 0, drawn |-> 0,
           over |-> FALSE, openOver |-> FALSE, overtaken |-> FALSE, doomed |-> FALSE]

Init ==
    /\ master = [m \in Masters |->
           [owner |-> Free, cover |-> "loose", fence |-> 0, past |-> 0,
            quarantined |-> FALSE, earlier |-> {},
            queue |-> [c \in Clients |-> <<>>],
            vote |-> [c \in Clients |-> "none"],
            ack |-> [c \in Clients |-> 0]]]
    /\ client = [c \in Clients |-> AtRest]
    /\ world = [highest |-> 0, committed |-> {}, clock |-> IF Fences THEN 1 ELSE 0,
                attempts |-> Attempts, restarts |-> Restarts, broken |-> "nothing"]

Holds(c) == client[c].phase \in {"holding", "renewing"}

\* What is sent belongs to what the client does now: nothing of an acquisition follows its release.
Current(queue) == ~Has(queue, "release")

Granted(c, fence) ==
    {m \in Masters : master[m].vote[c] = "counted" /\ master[m].ack[c] = fence}

-----------------------------------------------------------------------------
(* Votes *)

\* The probe's answer: a grant counts if the memory is known and old enough.
Decided(x, c, phase) ==
    IF x.quarantined /\ ~(CountQuarantined /\ phase = "renewing")
    THEN [x EXCEPT !.vote[c] = "none", !.ack[c] = 0]
    ELSE [x EXCEPT !.vote[c] = "counted"]

Voted(x, c, fence, phase) ==
    LET pending == [x EXCEPT !.vote[c] = "pending", !.ack[c] = fence]
    IN IF Probes THEN pending ELSE Decided(pending, c, phase)

\* The open round becomes the one that the lease rests on.
RestingOn(x, c) ==
    [x EXCEPT
        !.cover = IF x.owner # c THEN @
                  ELSE IF @ = "byLease" THEN "loose"
                  ELSE IF @ = "byRound" THEN "byLease"
                  ELSE @,
        !.earlier = (@ \ {LeaseOf(c), RoundOf(c)})
                        \cup (IF RoundOf(c) \in @ THEN {LeaseOf(c)} ELSE {}),
        !.vote[c] = "none",
        !.ack[c] = 0]

\* An extension that is executed late would only prolong a key's stay.
RoundForgotten(x, c) ==
    [x EXCEPT !.vote[c] = "none", !.ack[c] = 0, !.queue[c] = Without(@, "extend")]

\* No round of the client is open any more: its keys may go.
Closed(x, c) ==
    RoundForgotten([x EXCEPT
        !.cover = IF x.owner = c THEN "loose" ELSE @,
        !.earlier = @ \ {LeaseOf(c), RoundOf(c)}], c)

-----------------------------------------------------------------------------
(* Clients: acquisition *)

\* Draw a new token and ask every master.
Begin(c) ==
    /\ client[c].phase = "idle"
    /\ Attempts = 0 \/ world.attempts > 0
    /\ client' = [client EXCEPT ![c] =
           [AtRest EXCEPT !.phase = "acquiring",
                          !.floor = IF Fences THEN world.highest ELSE 0,
                          !.drawn = IF SlowAcquisition THEN world.clock ELSE 0]]
    /\ master' = [m \in Masters |->
           [master[m] EXCEPT !.queue[c] = Sent(@, Command("set", 0))]]
    /\ world' = IF Attempts = 0 THEN world ELSE [world EXCEPT !.attempts = @ - 1]

\* A fence must be new, and above those committed before its acquisition began; where keys
\* do not vanish, above all that were committed.
FenceIsRight(c, fence) ==
    \/ ~Fences
    \/ Vanish /\ fence \notin world.committed /\ fence > client[c].floor
    \/ ~Vanish /\ fence > world.highest

\* A quorum, with fences one that has answered the same number, makes a lease.
Commit(c) ==
    /\ client[c].phase = "acquiring"
    /\ \E fence \in {master[m].ack[c] : m \in Masters} :
        /\ Quorum(Granted(c, fence))
        /\ client' = [o \in Clients |->
               IF o = c
               THEN [client[c] EXCEPT !.phase = "holding", !.want = 0, !.fence = fence,
                                      !.floor = 0, !.drawn = 0]
               ELSE [client[o] EXCEPT !.overtaken =
                        @ \/ (Holds(o) /\ (Sleeps \/ CountAfterEnd))]]
        /\ master' = [m \in Masters |->
               RestingOn([master[m] EXCEPT !.past =
                   IF Fences /\ RoundOf(c) \in master[m].earlier THEN Max(@, fence) ELSE @], c)]
        /\ world' = [world EXCEPT
               !.highest = IF Fences THEN Max(@, fence) ELSE @,
               !.committed = IF Fences /\ Vanish THEN @ \cup {fence} ELSE @,
               !.broken = IF FenceIsRight(c, fence) THEN @ ELSE "fence"]

\* If no quorum agrees, raise every master to the largest number that was read.
SecondRound(c) ==
    /\ Fences
    /\ client[c].phase = "acquiring"
    /\ \E fence \in {master[m].ack[c] : m \in Masters} :
        /\ fence > client[c].want
        /\ \E m \in Masters : master[m].vote[c] = "counted" /\ master[m].ack[c] = fence
        /\ Quorum({m \in Masters : master[m].vote[c] = "counted" /\ master[m].ack[c] <= fence})
        /\ ~Quorum(Granted(c, fence))
        /\ client' = [client EXCEPT ![c].want = fence]
        /\ master' = [m \in Masters |->
               IF master[m].vote[c] = "counted" /\ master[m].ack[c] = fence
               THEN master[m]
               ELSE [master[m] EXCEPT !.queue[c] = Sent(@, Command("raise", fence))]]
    /\ UNCHANGED world

\* The end of an attempt or of a lease, for whatever reason. Releases are sent to all masters.
End(c) ==
    /\ client[c].phase # "idle"
    /\ master' = [m \in Masters |->
           LET x == Closed(master[m], c)
               refused == client[c].phase = "acquiring" /\ master[m].vote[c] = "none"
               released == IF ForgetRefused /\ refused THEN x.queue[c]
                           ELSE WithRelease(x.queue[c])
               last == IF HealAfterRelease /\ client[c].phase = "renewing" /\ Len(released) < Room
                       THEN Append(released, Command("heal", client[c].fence))
                       ELSE released
           IN [x EXCEPT !.queue[c] = last]]
    /\ client' = [client EXCEPT ![c] = AtRest]
    /\ UNCHANGED world

-----------------------------------------------------------------------------
(* Clients: renewal *)

BeginRenewal(c) ==
    /\ Renewals
    /\ client[c].phase = "holding"
    /\ client' = [client EXCEPT ![c].phase = "renewing",
                                ![c].doomed = client[c].overtaken,
                                ![c].openOver = FALSE]
    /\ master' = [m \in Masters |->
           [master[m] EXCEPT !.queue[c] = Sent(@, Command("extend", 0))]]
    /\ UNCHANGED world

\* Ask a master again whose vote failed, in the same round.
AskAgain(c, m) ==
    /\ client[c].phase = "renewing"
    /\ master[m].vote[c] = "none"
    /\ ~Has(master[m].queue[c], "extend")
    /\ master' = [master EXCEPT ![m].queue[c] = Sent(@, Command("extend", 0))]
    /\ UNCHANGED <<client, world>>

\* A quorum prolongs the lease. Only then are missing keys set again.
CommitRenewal(c) ==
    /\ client[c].phase = "renewing"
    /\ Quorum(Granted(c, 0))
    /\ master' = [m \in Masters |->
           LET q == master[m].queue[c]
               healed == IF master[m].vote[c] = "none" /\ ~Has(q, "heal")
                         THEN WithHeal(q, client[c].fence) ELSE q
           IN RoundForgotten(RestingOn([master[m] EXCEPT !.queue[c] = healed], c), c)]
    /\ client' = [client EXCEPT ![c].phase = "holding", ![c].over = client[c].openOver,
                                ![c].openOver = FALSE, ![c].doomed = FALSE]
    /\ world' = [world EXCEPT !.broken = IF client[c].doomed THEN "loss" ELSE @]

\* A renewal that fails. The next one counts from its own beginning.
GiveUpRenewal(c) ==
    /\ client[c].phase = "renewing"
    /\ master' = [m \in Masters |->
           LET x == master[m]
               cover == IF x.owner # c THEN x.cover
                        ELSE IF client[c].over THEN "loose"
                        ELSE IF x.cover = "byRound" THEN "byLease"
                        ELSE x.cover
               q == IF HealForRetry /\ x.vote[c] = "none" /\ ~Has(x.queue[c], "heal")
                    THEN WithHeal(x.queue[c], client[c].fence) ELSE x.queue[c]
               y == [x EXCEPT !.cover = cover, !.queue[c] = q, !.earlier = @ \ {RoundOf(c)}]
           IN IF KeepVotes THEN y ELSE RoundForgotten(y, c)]
    /\ client' = [client EXCEPT ![c].phase = "holding", ![c].openOver = FALSE, ![c].doomed = FALSE]
    /\ UNCHANGED world

-----------------------------------------------------------------------------
(* Clients: misfortune *)

\* The validity ends while a renewal is undecided, and the client goes on with it.
Outlive(c) ==
    /\ CountAfterEnd
    /\ client[c].phase = "renewing"
    /\ ~client[c].over
    /\ client' = [client EXCEPT ![c].over = TRUE]
    /\ master' = [m \in Masters |->
           [master[m] EXCEPT
               !.cover = IF master[m].owner = c /\ @ = "byLease" THEN "loose" ELSE @,
               !.earlier = @ \ {LeaseOf(c)}]]
    /\ UNCHANGED world

\* A holder is stopped for longer than its leases last, and no clock of its shows that.
Sleep(c) ==
    LET open == client[c].phase = "renewing" IN
    /\ Sleeps
    /\ Holds(c)
    /\ ~(client[c].over /\ client[c].openOver = open)
    /\ open => OneByOne
    /\ client' = [client EXCEPT ![c].over = TRUE, ![c].openOver = open]
    /\ master' = [m \in Masters |->
           [master[m] EXCEPT
               !.cover = IF master[m].owner = c THEN "loose" ELSE @,
               !.owner = IF @ = c /\ ~OneByOne THEN Free ELSE @,
               !.earlier = @ \ {LeaseOf(c), RoundOf(c)}]]
    /\ UNCHANGED world

\* A client dies. Its keys become nobody's.
Die(c) ==
    /\ Crashes
    /\ client[c].phase # "idle"
    /\ client' = [client EXCEPT ![c] = AtRest]
    /\ master' = [m \in Masters |->
           [Closed(master[m], c) EXCEPT
               !.queue[c] = <<>>,
               !.owner = IF @ = c THEN Orphan ELSE @]]
    /\ UNCHANGED world

-----------------------------------------------------------------------------
(* Masters: commands *)

\* The fence that a master gives with a key: above the last one, near the client's clock.
Numbers(x, c) ==
    IF ~Fences THEN {0}
    ELSE IF NoClock THEN {x.fence + 1}
    ELSE {Max(x.fence + 1, (IF SlowAcquisition THEN client[c].drawn ELSE world.clock) + d)
              : d \in 0..(Spread - 1)}

\* The master after a command; x has lost the command from its queue.
Executed(x, c, command) ==
    LET phase == client[c].phase
        current == phase = "acquiring" /\ Current(x.queue[c])
    IN CASE command.kind = "set" ->
                IF x.owner # Free THEN {x}
                ELSE {LET y == [x EXCEPT !.owner = c,
                                         !.cover = IF current THEN "byRound" ELSE "loose",
                                         !.fence = IF Fences THEN fence ELSE @]
                      IN IF current THEN Voted(y, c, fence, phase) ELSE y
                          : fence \in Numbers(x, c)}
         [] command.kind = "raise" ->
                IF x.owner # c THEN {x}
                ELSE LET y == [x EXCEPT !.fence = Max(@, command.fence)]
                     IN {IF current /\ client[c].want = command.fence
                         THEN Voted(y, c, IF AnyAck THEN command.fence ELSE y.fence, phase)
                         ELSE y}
         [] command.kind = "extend" ->
                IF x.owner = c \/ (HealAtOnce /\ x.owner = Free)
                THEN {Voted([x EXCEPT !.owner = c,
                                      !.cover = IF client[c].openOver THEN "loose" ELSE "byRound"],
                            c, 0, phase)}
                ELSE {x}
         [] command.kind = "heal" ->
                IF x.owner # Free THEN {x}
                ELSE {[x EXCEPT !.owner = c, !.cover = "loose",
                                !.fence = IF HealKeepsFence THEN @ ELSE Max(@, command.fence)]}
         [] command.kind = "release" ->
                IF x.owner # c THEN {x}
                ELSE {[x EXCEPT !.owner = Free, !.cover = "loose"]}

Execute(m, c) ==
    /\ master[m].queue[c] # <<>>
    /\ \E x \in Executed([master[m] EXCEPT !.queue[c] = Tail(@)], c, Head(master[m].queue[c])) :
           master' = [master EXCEPT ![m] = x]
    /\ UNCHANGED <<client, world>>

\* A release is owed until it is executed. Everything else may be lost.
Lose(m, c) ==
    /\ master[m].queue[c] # <<>>
    /\ Head(master[m].queue[c]).kind # "release"
    /\ master' = [master EXCEPT ![m].queue[c] = Tail(@)]
    /\ UNCHANGED <<client, world>>

Overtake(m, c) ==
    LET q == master[m].queue[c] IN
    /\ ReleaseOvertakes
    /\ Len(q) >= 2
    /\ q[2].kind = "release"
    /\ master' = [master EXCEPT ![m].queue[c] = <<q[2], q[1]>> \o SubSeq(q, 3, Len(q))]
    /\ UNCHANGED <<client, world>>

Probe(m, c) ==
    /\ master[m].vote[c] = "pending"
    /\ master' = [master EXCEPT ![m] = Decided(@, c, client[c].phase)]
    /\ UNCHANGED <<client, world>>

Expire(m) ==
    /\ master[m].owner # Free
    /\ master[m].cover = "loose" \/ Vanish
    /\ master' = [master EXCEPT ![m].owner = Free, ![m].cover = "loose"]
    /\ UNCHANGED <<client, world>>

-----------------------------------------------------------------------------
(* Masters: memory *)

\* The rounds that a quarantine which begins now must outlast.
Open ==
    IF ShortQuarantine THEN {}
    ELSE {LeaseOf(c) : c \in {d \in Clients : Holds(d) /\ ~client[d].over}}
         \cup (IF HeldOnly THEN {}
               ELSE {RoundOf(c) : c \in {d \in Clients :
                        \/ client[d].phase = "acquiring"
                        \/ client[d].phase = "renewing" /\ ~client[d].openOver}})

\* Commands under way still arrive, and votes that were counted stay counted.
NewLife(x) ==
    LET pending(c) == x.vote[c] = "pending"
        y == [x EXCEPT
                 !.cover = "loose",
                 !.vote = [c \in Clients |-> IF pending(c) THEN "none" ELSE x.vote[c]],
                 !.ack = [c \in Clients |-> IF pending(c) THEN 0 ELSE x.ack[c]],
                 !.queue = [c \in Clients |->
                     IF DropOwed THEN Without(x.queue[c], "release") ELSE x.queue[c]]]
    IN IF NoQuarantine THEN y
       ELSE [y EXCEPT !.quarantined = TRUE, !.past = world.highest, !.earlier = Open]

\* A master loses its memory, or wakes with an earlier key of a client or of nobody.
Restart(m) ==
    /\ world.restarts > 0
    /\ world' = [world EXCEPT !.restarts = @ - 1]
    /\ LET x == NewLife(master[m]) IN
       \/ master' = [master EXCEPT ![m] = [x EXCEPT !.owner = Free, !.fence = 0]]
       \/ /\ Snapshots
          /\ \E o \in {Orphan} \cup {c \in Clients :
                     client[c].phase # "idle" /\ Current(x.queue[c])} :
                 master' = [master EXCEPT ![m] = [x EXCEPT !.owner = o]]
    /\ UNCHANGED client

\* Every clock has passed the fences that were committed with the help of the forgotten life.
EndQuarantine(m) ==
    /\ master[m].quarantined
    /\ master[m].earlier = {}
    /\ world' = [world EXCEPT !.clock =
           IF Fences /\ ~NoClock THEN Max(@, master[m].past + 1) ELSE @]
    /\ master' = [master EXCEPT ![m].quarantined = FALSE, ![m].past = 0]
    /\ UNCHANGED client

-----------------------------------------------------------------------------

Next ==
    \/ \E c \in Clients :
        \/ Begin(c) \/ Commit(c) \/ SecondRound(c) \/ End(c)
        \/ BeginRenewal(c) \/ CommitRenewal(c) \/ GiveUpRenewal(c)
        \/ Outlive(c) \/ Sleep(c) \/ Die(c)
        \/ \E m \in Masters :
            AskAgain(c, m) \/ Execute(m, c) \/ Lose(m, c) \/ Overtake(m, c) \/ Probe(m, c)
    \/ \E m \in Masters : Expire(m) \/ Restart(m) \/ EndQuarantine(m)

Spec == Init /\ [][Next]_vars

Symmetry == Permutations(Masters) \cup Permutations(Clients)

-----------------------------------------------------------------------------
(* Properties *)

\* At most one client has a lease whose validity lasts.
OneHolder == Vanish \/ Cardinality({c \in Clients : Holds(c) /\ ~client[c].over}) <= 1

\* Each committed fence is new and higher: see FenceIsRight.
RisingFences == world.broken # "fence"

\* No renewal that began after another client held the lock prolongs the lease.
HonestLoss == world.broken # "loss"

\* A client at rest whose commands have all been executed has no key on any master.
NothingLeft ==
    \A m \in Masters, c \in Clients :
        master[m].owner = c /\ client[c].phase = "idle" => master[m].queue[c] # <<>>
=============================================================================
