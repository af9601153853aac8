package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// scenario is one of a story.
type scenario struct {
	name, says string
	script     []byte // for testscript; its lines have the numbers that they have in the story
}

// story is a file of testdata.
type story struct {
	name      string // of the file, without its ending
	scenarios []scenario
}

func readStories(t testing.TB) []story {
	t.Helper()
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no story: %v", err)
	}
	var stories []story
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s := story{name: strings.TrimSuffix(filepath.Base(name), ".txtar")}
		if s.scenarios, err = parse(string(text)); err != nil {
			t.Fatalf("%s:%v", name, err)
		}
		stories = append(stories, s)
	}
	return stories
}

var heading = regexp.MustCompile(`^## ([a-z0-9-]+): (.+)$`)

// parse takes a story apart. Its scenarios stand behind each other, each with its own files.
func parse(text string) (scenarios []scenario, err error) {
	var body []string // of the scenario that is being read
	begin := 0
	finish := func() error {
		if len(scenarios) == 0 {
			return nil
		}
		s := &scenarios[len(scenarios)-1]
		s.script, err = compile(body, begin)
		return err
	}
	names := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if !strings.HasPrefix(line, "## ") {
			body = append(body, line)
			continue
		}
		if err := finish(); err != nil {
			return nil, err
		}
		m := heading.FindStringSubmatch(line)
		if m == nil || names[m[1]] {
			return nil, fmt.Errorf("%d: a heading is ## NAME: text, and a name comes once", i+1)
		}
		names[m[1]] = true
		scenarios = append(scenarios, scenario{name: m[1], says: m[2]})
		body, begin = nil, i+1
	}
	return scenarios, finish()
}

// compile makes a script of a scenario: what is to be seen of a command becomes a file, and the
// command an argument of `sees`, which compares.
func compile(body []string, begin int) ([]byte, error) {
	archive := &txtar.Archive{}
	script := make([]string, begin) // so that errors name the lines of the story
	for i := 0; i < len(body); i++ {
		line := body[i]
		if strings.HasPrefix(line, "-- ") {
			files := txtar.Parse([]byte(strings.Join(body[i:], "\n") + "\n"))
			archive.Files = append(archive.Files, files.Files...)
			break
		}
		var wanted []string
		for i+1 < len(body) && strings.HasPrefix(body[i+1], ">") {
			i++
			wanted = append(wanted, strings.TrimPrefix(body[i][1:], " "))
		}
		command := strings.TrimSpace(line)
		how := "now"
		if rest, ok := strings.CutPrefix(command, "until "); ok {
			command, how = rest, "until"
		} else if rest, ok := strings.CutPrefix(command, "for "); ok {
			how, command, _ = strings.Cut(rest, " ")
		}
		if len(wanted) == 0 && !strings.HasPrefix(line, ">") {
			if how != "now" {
				return nil, fmt.Errorf("%d: nothing says what is to be seen", begin+i+1)
			}
			script = append(script, line)
			continue
		}
		if command == "" || strings.HasPrefix(command, "#") || command[0] == '>' {
			return nil, fmt.Errorf("%d: no command stands before what is to be seen", begin+i+1)
		}
		if _, err := parseWant(strings.Join(wanted, "\n")); err != nil {
			return nil, fmt.Errorf("%d: %w", begin+i+1, err)
		}
		if after, not := strings.CutPrefix(command, "! "); not {
			command, how = after, "!"+how
		}
		file := fmt.Sprintf("wanted-%d", len(archive.Files)+1)
		archive.Files = append(archive.Files,
			txtar.File{Name: file, Data: []byte(strings.Join(wanted, "\n") + "\n")})
		script = append(script, fmt.Sprintf("sees %s %s %s", how, file, command))
		script = append(script, make([]string, len(wanted))...)
	}
	archive.Comment = []byte(strings.Join(script, "\n") + "\n")
	return txtar.Format(archive), nil
}

func TestStoriesCanBeRead(t *testing.T) {
	for _, s := range readStories(t) {
		if len(s.scenarios) == 0 {
			t.Errorf("%s has no scenario", s.name)
		}
	}
}

func TestWhatIsSeenStandsBehindItsCommand(t *testing.T) {
	got, err := parse("A story.\n\n## one: It says so.\n# so\nuntil rota queue ls\n> A  B\n> 1  2\nend\n" +
		"-- f --\nx\n## two: And so.\n! rota x\n> ~ no\n")
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	const one = "\n\n\n# so\nsees until wanted-1 rota queue ls\n\n\nend\n-- wanted-1 --\nA  B\n1  2\n-- f --\nx\n"
	if s := string(got[0].script); s != one || got[0].name != "one" || got[0].says != "It says so." {
		t.Errorf("%q", s)
	}
	if s := string(got[1].script); !strings.Contains(s, "\nsees !now wanted-1 rota x\n") {
		t.Errorf("%q", s)
	}
	for _, bad := range []string{
		"## One: x", "## one: x\n## one: y", "## one: x\n> a = b", "## one: x\nuntil rota",
		"## one: x\n# c\n> = b", "## one: x\nrota\n> ~ (", "## one: x\nrota\n> a  b\n> c",
	} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
