// Package interop tests redlock beside other clients of the algorithm, and its commands on
// Valkey. It belongs to the module lab, so the library does not depend on them.
//
// The tests with node-redlock and Valkey need Node 20 or later and the packages
// of package.json: run `npm ci` in this directory. Without them these tests are skipped, or fail if
// the environment has REDLOCK_REQUIRE_NODE=1.
package interop
