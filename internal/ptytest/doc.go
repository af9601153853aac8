// Package ptytest has terminals for tests: what a program shows on one, and keys for it. There are
// some on Linux only.
package ptytest
