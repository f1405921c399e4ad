// Package kubernetes tests the manifests beside it, which docs/operations.md explains, as far as a machine without a
// cluster allows.
package kubernetes
