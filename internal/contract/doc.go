// Package contract tests what package redlock promises to its callers, through the public API, with embedded masters
// and mostly in virtual time. Each test file is a theme.
//
// Tests that need what is not exported are beside the code of package redlock. Tests on real servers are in
// internal/realtest.
package contract
