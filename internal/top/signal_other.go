//go:build !unix

package top

import "os"

// notifyResize does nothing: the size is looked at whenever the screen is drawn.
func notifyResize(chan<- os.Signal) {}

// suspend does nothing: there is no shell that would let this go on.
func suspend() {}
