package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
)

// ReadFrom reads a whole file, or stdin.
func (a *App) ReadFrom(name string) ([]byte, error) {
	in := a.In
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
		return nil, fmt.Errorf("read %s: %w", SourceName(name), err)
	}
	return text, nil
}

// SourceName is what errors call a file that ReadFrom reads.
func SourceName(name string) string {
	if name == "-" {
		return "stdin"
	}
	return name
}

// ReadSecret reads a file without the white space around what it holds; "" reads none, "-" stdin.
func (a *App) ReadSecret(name string, to *string) error {
	if name == "" {
		return nil
	}
	in := a.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxSecretFile+1))
	switch {
	case err != nil:
		return fmt.Errorf("read %q: %w", name, err)
	case len(b) > maxSecretFile:
		return usage.Errorf("%s is longer than %d bytes", name, maxSecretFile)
	}
	if *to = strings.TrimSpace(string(b)); *to == "" {
		return usage.Errorf("%s is empty", name)
	}
	return nil
}

// maxSecretFile is how much of a file is read: what it should hold is one line, or a template.
const maxSecretFile = 64 << 10

// ReadValue reads what a flag says, or the file or stdin that it names.
func (a *App) ReadValue(flag, arg string) (text []byte, err error) {
	text = []byte(arg)
	name, isFile := strings.CutPrefix(arg, "@")
	switch {
	case arg == "-":
		text, err = io.ReadAll(io.LimitReader(a.In, MaxContext+1))
	case isFile:
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read context: %w", err)
	}
	if len(text) > MaxContext {
		return nil, usage.Errorf("%s: more than %s", flag, term.Bytes(MaxContext))
	}
	return text, nil
}

// ReadJSON is the JSON that a flag gives; "" = none.
func (a *App) ReadJSON(flag, arg string) (json.RawMessage, error) {
	if arg == "" {
		return nil, nil
	}
	text, err := a.ReadValue(flag, arg)
	if err != nil {
		return nil, err
	}
	if text = bytes.TrimSpace(text); !utf8.Valid(text) || !json.Valid(text) {
		return nil, usage.Errorf("%s: not JSON (a plain text needs its quotes: '\"text\"')", flag)
	}
	return text, nil
}

// MaxContext is the longest context in bytes; no queue takes a longer one.
const MaxContext = 32 << 20
