//go:build unix

package guard

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"syscall"
)

// starter is how this program is called to stand where a command is to run. It is no command of
// the command line, which takes settings from the environment: that is the command's here.
var starter = []string{"worker", "starter"}

// word is the file descriptor of the pipe on which a starter is told to begin.
const word = 3

// Starts tells whether this process was called to become a command, with these arguments, and
// which. It is to be asked before anything opens a file.
func Starts(args []string) (command []string, it bool) {
	if len(args) <= len(starter) || !slices.Equal(args[:len(starter)], starter) {
		return nil, false
	}
	var pipe syscall.Stat_t
	err := syscall.Fstat(word, &pipe)
	if err != nil || pipe.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, false // somebody calls it by hand
	}
	return args[len(starter):], true
}

// Become waits for the word to begin, a line, and makes this process the command, as worker.Leash
// has it. It returns when there is no word, or the command can't run.
func Become(command []string) error {
	in := os.NewFile(word, "begin")
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return fmt.Errorf("wait for the word to begin: %w", err)
	}
	in.Close()
	if err := syscall.Exec(command[0], command, os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", command[0], err)
	}
	return nil
}
