//go:build !unix

package main

import "github.com/rotahq/rota/internal/cli"

func needsReaper([]string) bool { return false }

func reaper([]string) (int, error) { return cli.ExitFailed, nil }
