// Package members explores exhaustively how the list of masters is changed while clients run: a master is replaced by another
// server, or the number of masters changes. It complements package model, where all clients have the same three masters. It
// consists of tests only, and models the protocol, not the code.
//
// # The rule
//
// Two lists exclude each other if their quorums together are larger than the number of servers in either list that can vote.
// A server that has lost its vote counts for one quarantine longer, since leases may rest on its earlier votes. A new server
// has no vote during its quarantine, which begins when a client first inspects it, or when it is adopted with fewer servers than
// the list of the client has. From this follow the three procedures of docs/operations.md:
//
//   - replace: the old server stops voting for good, then the new one is started. Clients change the list at any time.
//   - grow: clients get the longer list while the new servers are not started. They are started when no client has the old list.
//   - shrink: the servers that leave stop voting for good. After one quarantine, clients get the shorter list.
//
// # What is modelled
//
// Up to five servers, and two clients. Each client has the old list or the new one. A client that is idle may be restarted with
// another list. A stopped server never votes again. Leases, renewals, heals, releases, probes and losses of memory are those of
// package model, with one difference: as in the code, a quarantine begins when a client inspects a memory without a record,
// and not when the memory is lost.
//
// Checked in every state: at most one client holds the lock. TestEachRuleIsNeeded switches off one rule at a time and finds two
// holders.
//
// # What it does not cover
//
//   - Time has no numbers: a quarantine ends at any time after the leases and rounds that it must outlast have ended.
//   - Commands are atomic. Late commands are the subject of package model.
//   - Lists of five. Two replacements at once are modelled for lists of three.
//   - Clients that stop without giving up their leases. A lease that ends is the same to the masters.
package members
