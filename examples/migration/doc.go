// Package migration shows code that uses another lock, and the same code with redlock.
// docs/migration.md quotes it.
package migration
