package names_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
)

func TestNamesHaveOneForm(t *testing.T) {
	for given, want := range map[string]string{
		"mail": "mail", "": "", "邮件": "邮件", "cafe\u0301": "café", "café": "café",
		"\u212bngstro\u0308m": "Ångström", "\u1112\u1161\u11ab": "한",
		"\u0958": "\u0915\u093c", // form C takes it apart
		"a\xffb": "a\xffb",
	} {
		if got := names.Canonical(given); got != want {
			t.Errorf("%+q becomes %+q, want %+q", given, got, want)
		}
	}
	if long := strings.Repeat("e\u0301", 4000); names.Canonical(long) != long {
		t.Error("what is too long for a name was worked on")
	}
}

func TestTheLongestNameMayComeInFormD(t *testing.T) {
	given := strings.Repeat("\u0073\u0323\u0307", limits.MaxName) // ṩ
	got := names.Canonical(given)
	if want := strings.Repeat("ṩ", limits.MaxName); got != want || !limits.ValidName(got) {
		t.Errorf("it becomes %d characters", utf8.RuneCountInString(got))
	}
}

func TestAListIsChangedInACopy(t *testing.T) {
	plain := []string{"a", "é"}
	if got := names.All(plain); &got[0] != &plain[0] {
		t.Error("a list in form C was copied")
	}
	mixed := []string{"a", "e\u0301", "o\u0308"}
	if got := names.All(mixed); !slices.Equal(got, []string{"a", "é", "ö"}) {
		t.Errorf("got %q", got)
	}
	if mixed[1] != "e\u0301" {
		t.Error("the caller's list was changed")
	}
}

func TestCallersAreAnsweredInTheirOwnSpelling(t *testing.T) {
	var s names.Spelling
	list := []string{"mail", "cafe\u0301"}
	s.ReadAll(list)
	if !slices.Equal(list, []string{"mail", "café"}) {
		t.Errorf("read as %q", list)
	}
	if s.Write("café") != "cafe\u0301" || s.Write("mail") != "mail" || s.Write("other") != "other" {
		t.Errorf("written as %q, %q", s.Write("café"), s.Write("mail"))
	}
}

func TestNamesAreMadeOfHosts(t *testing.T) {
	for host, want := range map[string]string{
		"Web-1.example.org": "Web-1.example.org", "-x": "x", "été 2": "été-2", "服务器": "服务器",
		"a\u202eb": "a-b", "...": "", "": "", "a/b\\c": "a-b-c", "e\u0301": "é",
	} {
		if got := names.Of(host, 100); got != want {
			t.Errorf("%q makes %q, want %q", host, got, want)
		}
	}
	if got := names.Of(strings.Repeat("é", 300), 100); utf8.RuneCountInString(got) != 100 {
		t.Errorf("a long one makes %d characters", utf8.RuneCountInString(got))
	}
}

// FuzzNames: a valid name's canonical form is its own canonical form, and whatever Of makes is a
// name or nothing.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"mail", "邮件", "cafe\u0301", "\u0958", "مرحبا", "a\u034fb", "\u1112\u1161"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := names.Canonical(s)
		if twice := names.Canonical(once); twice != once {
			t.Errorf("%+q becomes %+q, and that %+q", s, once, twice)
		}
		if of := names.Of(s, limits.MaxName); of != "" && !limits.ValidName(names.Canonical(of)) {
			t.Errorf("%+q makes %+q, which is no name", s, of)
		}
	})
}
