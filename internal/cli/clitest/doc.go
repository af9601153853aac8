// Package clitest has what tests of several commands share. Run, of package cli, plays a command
// line; what it talks to is here.
package clitest

// NoEnv is an environment without variables.
func NoEnv(string) (string, bool) { return "", false }
