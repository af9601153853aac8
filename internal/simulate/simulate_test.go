package simulate

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/place"
)

func TestParseScript(t *testing.T) {
	for _, test := range []struct {
		text string
		want string // steps and texts, or the end of the error
		bad  bool
	}{
		{"", "", false},
		{" ; \n\n# nothing\n;", "", false},
		{"3: kill w1", "3 kill w1", false},
		{"3:kill   w1 w2;1 : drain zone=a", "1 drain zone=a, 3 kill w1 w2", false},
		{"2: add 5x0.5 # why\n2: join 2x60@zone=a,disk=fast",
			"2 add 5x0.5, 2 join 2x60@zone=a,disk=fast", false},
		{"0: replicas 10000", "0 replicas 10000", false},
		{"1: resize w1 0", "1 resize w1 0", false},
		{"kill w1", "want STEP: EVENT with a step from 0, as in 3: kill w1", true},
		{"1: kill w1; : kill w2", "want STEP: EVENT with a step from 0, as in 3: kill w1", true},
		{"99999999999999999999: kill w1", "want STEP: EVENT with a step from 0, as in 3: kill w1",
			true},
		{"1:", "want STEP: EVENT with a step from 0, as in 3: kill w1", true},
		{"1: explode w1",
			`no event "explode"; there are add, drain, join, kill, remove, replicas, resize, undrain`,
			true},
		{"1: resize w1", "resize takes 2 words, not 1", true},
		{"1: resize w1 NaN", "load NaN: not a number", true},
		{"1: replicas 10001", `replicas "10001": want 1 to 10000`, true},
		{"1: join 5", "1 join 5", false},
		{"1: join y", `workers "y": want a capacity, as in 60, 3x60 or 3x60@zone=a`, true},
		{"1: add -1", `want COUNT[xLOAD] with a count of 0 to 1000000, as in 900 or 100x5`, true},
	} {
		events, err := parseScript(test.text, "--script")
		var got []string
		for _, e := range events {
			got = append(got, term.Count(e.step)+" "+e.text)
		}
		text := strings.Join(got, ", ")
		if err != nil {
			text = err.Error()
		}
		if (err != nil) != test.bad || !test.bad && text != test.want ||
			!strings.HasSuffix(text, test.want) {
			t.Errorf("%q: %s; want %s", test.text, text, test.want)
		}
		if test.bad &&
			(!errors.Is(err, usage.Err) || !strings.HasPrefix(text, "--script, event ")) {
			t.Errorf("%q: %v does not say where", test.text, err)
		}
	}
}

// FuzzScript: whatever a script says, it is refused or played, and the picture of it is
// well-formed.
func FuzzScript(f *testing.F) {
	f.Add("1: kill w1; 2: join 2x5@zone=a,k=v; 3: add 3x0.5; 4: drain w2 zone=a")
	f.Add("1: resize w1 0.125; 2: remove j1 j2; 3: replicas 3; 4: undrain w2; 4: kill w2 w3")
	f.Add("0: kill w1 w2 w3;9: join 1@zone=<&>")
	f.Fuzz(func(t *testing.T, text string) {
		script, err := parseScript(text, "--script")
		if err != nil {
			return
		}
		sim, err := Config{Workers: []string{"2x4@zone=b,3"}, Jobs: "6,2x1.5", Load: 1, Replicas: 2,
			Spread: "zone", Moves: 2, New: 1}.madeUp()
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 200 || strings.Contains(text, "000") {
			return // takes long and shows nothing more
		}
		if err := sim.play(t.Context(), script, 60); err != nil && !errors.Is(err, usage.Err) {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(strings.NewReader(drawLoads(sim))); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestNothingIsAboveCapacityInAnyStep(t *testing.T) {
	sim, err := Config{Workers: []string{"5x60"}, Jobs: "100", Load: 1, Replicas: 2, Spread: "zone",
		Moves: 10, New: 4}.madeUp()
	if err != nil {
		t.Fatal(err)
	}
	script, err := parseScript(
		"1: kill w1; 4: kill w2; 6: join 30; 8: replicas 3; 20: resize w3 40; 25: remove j1",
		"--script",
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.play(t.Context(), script, 1000); err != nil {
		t.Fatal(err)
	}
	for _, step := range sim.steps {
		if step.Most > 1 {
			t.Errorf("step %d: %v", step.Step, step.Loads)
		}
	}
	if last := sim.steps[len(sim.steps)-1]; !sim.atRest || last.Loads["w3"] != 40 ||
		last.Budget.Workers >= 0 {
		t.Errorf("in the end: %+v", last)
	}
}

// A copied group brings names of its own: what joins or is added takes others.
func TestNamesAreNeverGivenTwice(t *testing.T) {
	sim := &simulation{taken: map[string]bool{"w1": true, "w3": true, "j1": true}, load: place.Unit}
	if err := errors.Join(sim.join("3x5"), sim.add("2")); err != nil {
		t.Fatal(err)
	}
	names := strings.Join(sim.names, " ") + " " + sim.state.Jobs[0].Name + " " +
		sim.state.Jobs[1].Name
	if want := "w2 w4 w5 j2 j3"; names != want {
		t.Errorf("%s, not %s", names, want)
	}
}

func TestPictureTellsWhatHappenedButNotWithoutEnd(t *testing.T) {
	for events, want := range map[int]struct{ told, more int }{
		0: {0, 0}, 3: {3, 0}, maxTold: {maxTold, 0}, maxTold + 5: {maxTold, 1},
	} {
		sim, err := Config{Workers: []string{"2x4"}, Jobs: "2", Load: 1, Replicas: 1,
			Spread: "zone", Moves: 2, New: 1}.madeUp()
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for i := range events {
			fmt.Fprintf(&text, "%d: join 4; ", i+1)
		}
		script, err := parseScript(text.String(), "--script")
		if err != nil {
			t.Fatal(err)
		}
		if err := sim.play(t.Context(), script, 1000); err != nil {
			t.Fatal(err)
		}
		drawn := drawLoads(sim)
		told, more, lines := strings.Count(drawn, ">join 4</text>"),
			strings.Count(drawn, ">and more</text>"), strings.Count(drawn, `class="event"`)
		if told != want.told || more != want.more || lines != events {
			t.Errorf("of %d events %d are told, %d lines drawn, and more %d times; want %+v",
				events, told, lines, more, want)
		}
	}
}
