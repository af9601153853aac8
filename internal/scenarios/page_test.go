package scenarios

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

const page = "../../docs/coming-from.md"

// verdict is a row of the page: what a document describes, how rota does it, and what shows it.
type verdict struct {
	line             int
	says, grade, why string
	scenario         string // STORY/NAME
}

var named = regexp.MustCompile("^`([0-9a-z-]+/[a-z0-9-]+)`$")

// verdicts are the rows of all tables that begin with "the document"; wrong says what is wrong with
// them.
func verdicts(text string) (list []verdict, wrong []string) {
	inside := false
	for i, line := range strings.Split(text, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case cells[0] == "the document":
			inside = true
		case inside && !strings.HasPrefix(line, "|---"):
			name := named.FindStringSubmatch(cells[min(2, len(cells)-1)])
			if len(cells) != 4 || name == nil {
				wrong = append(wrong, fmt.Sprintf("line %d: a row is: what | W, B or D | `STORY/SCENARIO` | why", i+1))
				continue
			}
			list = append(list, verdict{i + 1, cells[0], cells[1], cells[3], name[1]})
		}
	}
	return list, wrong
}

// check holds the rows against the scenarios that there are.
func check(text string, scenarios map[string]bool) []string {
	list, wrong := verdicts(text)
	shown := map[string]bool{}
	for _, v := range list {
		complain := func(what string) {
			wrong = append(wrong, fmt.Sprintf("line %d, %s: %s", v.line, v.says, what))
		}
		switch {
		case v.grade != "W" && v.grade != "B" && v.grade != "D":
			complain("the grade " + v.grade + " is none of W, B and D")
		case v.grade != "W" && v.why == "":
			complain("what is not as written has a reason")
		}
		if !scenarios[v.scenario] {
			complain("there is no scenario " + v.scenario)
		}
		shown[v.scenario] = true
	}
	for name := range scenarios {
		if !shown[name] {
			wrong = append(wrong, "no row names the scenario "+name)
		}
	}
	return wrong
}

func TestEachBehaviourNamesTheScenarioThatShowsIt(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	scenarios := map[string]bool{}
	for _, s := range readStories(t) {
		for _, one := range s.scenarios {
			scenarios[s.name+"/"+one.name] = true
		}
	}
	for _, wrong := range check(string(text), scenarios) {
		t.Error(page + ": " + wrong)
	}
}

func TestBadRowsAreFound(t *testing.T) {
	const head = "| the document | | scenario | why |\n|---|---|---|---|\n"
	there := map[string]bool{"s/a": true}
	if wrong := check(head+"| x | W | `s/a` | |\n\n| there | here |\n|---|---|\n| a | b |\n",
		there); len(wrong) != 0 {
		t.Error(wrong)
	}
	for _, row := range []string{
		"| x | P | `s/a` | why |", "| x | D | `s/a` | |", "| x | W | `s/b` | |\n| x | W | `s/a` | |",
		"| x | W | s/a | |\n| x | W | `s/a` | |", "", "| x | W |\n| x | W | `s/a` | |",
	} {
		if wrong := check(head+row, there); len(wrong) != 1 {
			t.Errorf("%q: %q", row, wrong)
		}
	}
}
