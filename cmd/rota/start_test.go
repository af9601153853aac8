package main

import (
	"os/exec"
	"testing"
)

// BenchmarkStart is what each command takes before it does anything: the start of a process, and
// what packages do then.
func BenchmarkStart(b *testing.B) {
	rota, err := build.rota()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if out, err := exec.Command(rota, "version").CombinedOutput(); err != nil {
			b.Fatalf("rota version: %v\n%s", err, out)
		}
	}
}
