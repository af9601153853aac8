//go:build !unix

package supervise

// noWait: here nothing that is opened waits.
const noWait = 0
