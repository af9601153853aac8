// Package names brings names into the one form in which they are stored and compared: Unicode's
// normalization form C, by which é is one character, however it was typed.
//
// Names are normalized where they come in: in the API, the configuration of a node, its file of
// tokens, the command line. Behind these doors they are compared byte for byte. Packages client and
// worker send names as they were given, since they link no tables of Unicode; a server answers
// their calls in their own spelling.
package names

import (
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/rotahq/rota/internal/limits"
)

// longest is the length in bytes beyond which no text is a name in any form, so that nothing long
// is worked on. A name's text in form D takes at most 4 code points for each in form C.
const longest = 4 * 4 * limits.MaxName

// Canonical is the name in form C. Whether it is valid is for [limits.ValidName] to say; what can't
// be a name at all comes back as it is.
func Canonical(s string) string {
	if len(s) > longest || norm.NFC.IsNormalString(s) {
		return s
	}
	return norm.NFC.String(s)
}

// All is Canonical for each of a list, which stays as it is: when one of its names differs the
// answer is a list of its own.
func All(list []string) []string {
	for i, name := range list {
		if Canonical(name) == name {
			continue
		}
		own := append(make([]string, 0, len(list)), list[:i]...)
		for _, name := range list[i:] {
			own = append(own, Canonical(name))
		}
		return own
	}
	return list
}

// Spelling is what names of one call were written like by who made it, where that is not their
// canonical form: by canonical name. The zero value is that all were.
type Spelling map[string]string

// Read brings a name into its canonical form, and notes how it was written.
func (s *Spelling) Read(name string) string {
	canonical := Canonical(name)
	if canonical != name {
		if *s == nil {
			*s = Spelling{}
		}
		(*s)[canonical] = name
	}
	return canonical
}

// ReadAll is Read for a list, which it changes.
func (s *Spelling) ReadAll(list []string) {
	for i := range list {
		list[i] = s.Read(list[i])
	}
}

// Write is a name as the caller wrote it.
func (s Spelling) Write(name string) string {
	if own, differs := s[name]; differs {
		return own
	}
	return name
}

// Of makes a name of text that need not be one, as a host's: each character that a name can't
// have becomes a dash. It is at most limit characters long, and empty when nothing is left.
func Of(text string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range Canonical(text) {
		first := limits.ValidName(string(r))
		switch {
		case n == limit:
			return b.String()
		case first, n > 0 && limits.ValidName("a"+string(r)):
			b.WriteRune(r)
		case n > 0:
			b.WriteByte('-')
		default:
			continue // a name can't begin with it, nor with a dash
		}
		n++
	}
	return b.String()
}
