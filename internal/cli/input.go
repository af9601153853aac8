package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/term"
)

// readFrom reads a whole file, or stdin.
func (a *App) readFrom(name string) ([]byte, error) {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err // it names the file
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, limits.MaxSourceSize+1))
	if err == nil && len(text) > limits.MaxSourceSize {
		err = fmt.Errorf("longer than %s", term.Bytes(limits.MaxSourceSize))
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", sourceName(name), err)
	}
	return text, nil
}

// sourceName is what errors call a file that readFrom reads.
func sourceName(name string) string {
	if name == "-" {
		return "stdin"
	}
	return name
}
