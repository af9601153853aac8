//go:build !unix

package main

func needsReaper([]string) bool { return false }

func reaper([]string) (int, error) { return exitFailed, nil }
