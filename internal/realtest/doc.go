// Package realtest tests the library on real Redis servers, which the tests start. It uses the public API only.
package realtest
