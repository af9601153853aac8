package top

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// loads are the lists that were asked for.
func loads(do []Effect) (list []Query) {
	for _, e := range do {
		if e.Load != nil {
			list = append(list, *e.Load)
		}
	}
	return list
}

func acts(do []Effect) (list []Action) {
	for _, e := range do {
		if e.Act != nil {
			list = append(list, *e.Act)
		}
	}
	return list
}

func TestListsAreReadOneAtATimeAndAgainWhenTheyAreOld(t *testing.T) {
	r := live().press("3")
	want := []Query{{Screen: Workers}}
	r.tell(Tick(noon.Add(time.Minute)), Tick(noon.Add(2*time.Minute)))
	if got := loads(r.asked); !slices.Equal(got, want) {
		t.Fatalf("asked for %v while the first answer was under way", got)
	}
	at := noon.Add(2 * time.Minute)
	r.tell(Loaded{Query: want[0], At: at})
	r.tell(Tick(at.Add(staleList - 1)))
	if got := loads(r.asked); len(got) != 1 {
		t.Errorf("a fresh list is read again: %v", got)
	}
	r.tell(Tick(at.Add(staleList)))
	if got := loads(r.asked); len(got) != 2 {
		t.Errorf("an old list is not read again: %v", got)
	}
	r.press("1").tell(Loaded{Query: want[0], At: at}, Tick(at.Add(time.Hour)))
	if got := loads(r.asked); len(got) != 2 {
		t.Errorf("a list that is not on the screen is read: %v", got)
	}
}

func TestNothingIsDoneWithoutYes(t *testing.T) {
	for key, verb := range map[string]Verb{"c": Cancel, "r": Retry} {
		for answer, done := range map[string]bool{"y": true, "Y": true, "n": false, "esc": false,
			"enter": false, "c": false} {
			r := live().press("4").tell(deadTasks()).press("down", key, answer)
			want := []Action{{verb, Thing{Screen: Tasks, ID: "1pq3v0m7d2k5g11"}}}
			if got := acts(r.asked); done != slices.Equal(got, want) || !done && len(got) > 0 {
				t.Errorf("%s, answered by %s: %v", verb, answer, got)
			}
		}
	}
}

func TestVerbsAreOfTheirScreens(t *testing.T) {
	for screen, keys := range map[string]map[string]Verb{
		"1": {"p": Pause, "P": Resume, "d": "", "c": ""},
		"2": {"p": Pause, "P": Resume, "r": ""}, "3": {"d": Drain, "D": Undrain, "p": ""},
		"7": {"d": "", "p": ""}, "8": {"c": "", "r": ""},
	} {
		for key, verb := range keys {
			r := live().press(screen)
			r.tell(Loaded{Query: r.query(), At: noon, List: List{
				Heads: []string{"A"}, Rows: []Row{{"x", []Cell{{Text: "x"}}}},
			}})
			got := acts(r.press(key, "y").asked)
			if verb == "" && len(got) > 0 ||
				verb != "" && (len(got) != 1 || got[0].Verb != verb) {
				t.Errorf("screen %s, %s: %v", screen, key, got)
			}
		}
	}
}

func TestWhatWasDoneIsToldAndTheListReadAgain(t *testing.T) {
	fresh := deadTasks()
	fresh.At = noon.Add(4 * time.Second)
	r := live().press("4").tell(fresh).press("r", "y")
	before := len(loads(r.asked))
	act := acts(r.asked)[0]
	r.tell(Acted{act, "", nil})
	if r.note == "" || r.bad || len(loads(r.asked)) != before+1 {
		t.Errorf("note %q, %d lists read", r.note, len(loads(r.asked))-before)
	}
	r.tell(Acted{act, "", errors.New("conflict")})
	if r.note != "conflict" || !r.bad {
		t.Errorf("note %q", r.note)
	}
}

func TestFilterTakesWordsInAnyOrderAndEndsWithEscape(t *testing.T) {
	r := live().press("4").tell(deadTasks()).press("/")
	for _, c := range "refused mail" {
		k := string(c)
		if c == ' ' {
			k = "space"
		}
		r.press(k)
	}
	if got := r.rows(); len(got) != 1 || got[0].ID != "1pq3v0m7d2k5g10" {
		t.Errorf("filtered by %q: %v", r.filter, got)
	}
	r.press("backspace", "enter", "q")
	quits := slices.ContainsFunc(r.asked, func(e Effect) bool { return e.Quit })
	if r.filter != "refused mai" || !quits {
		t.Errorf("the filter is %q", r.filter)
	}
	if r.press("esc"); len(r.rows()) != 3 {
		t.Errorf("after escape there are %d", len(r.rows()))
	}
}

func TestCursorStaysInAListThatShrinks(t *testing.T) {
	r := many(100).press("end")
	if row, _ := r.current(); row.ID != "queue-0099" {
		t.Errorf("the last is %q", row.ID)
	}
	s := stand(2)
	r.tell(s)
	if row, some := r.current(); !some || row.ID != "img" {
		t.Errorf("of three it is %q", row.ID)
	}
	if r.press("up"); r.places[Overview].cursor != 1 {
		t.Errorf("the cursor is at %d", r.places[Overview].cursor)
	}
}

// What was pressed beyond the end of a text is not to be taken back first.
func TestATextScrollsBackFromItsEnd(t *testing.T) {
	for _, key := range []string{"end", "pgdn"} {
		r := live().press("4").tell(deadTasks()).press("enter")
		r.tell(Opened{Thing: r.detail.Thing, Text: strings.Repeat("a\n", 50) + "b\nc\n"})
		seen := func() string { return strings.Join(r.Lines(80, 24), "\n") }
		for range 20 { // a screen is drawn after each key
			r.press(key)
			seen()
		}
		if end := seen(); !strings.Contains(end, "\nc") {
			t.Fatalf("%s shows\n%s", key, end)
		}
		r.press("up")
		seen()
		if r.press("up"); strings.Contains(seen(), "\nb") {
			t.Errorf("two lines above the end, after %s, it shows\n%s", key, seen())
		}
	}
}

func TestFrozenScreenGoesOnWithTheNewest(t *testing.T) {
	r := live().press("space").tell(stand(7), stand(8))
	if !r.Stand.At.Equal(noon.Add(4 * time.Second)) {
		t.Errorf("frozen, it shows %v", r.Stand.At)
	}
	if r.press("space"); !r.Stand.At.Equal(noon.Add(8 * time.Second)) {
		t.Errorf("going on, it shows %v", r.Stand.At)
	}
}

func TestTasksOfAQueueAndOfTheNextState(t *testing.T) {
	r := live().press("down", "t")
	if got, want := r.query(), (Query{Screen: Tasks, Queue: "mail"}); got != want {
		t.Errorf("asked for %v, want %v", got, want)
	}
	r.press("s")
	if r.State != task.Dead {
		t.Errorf("after any state comes %q", r.State)
	}
	if r.press("esc"); r.Queue != "" {
		t.Errorf("escape leaves queue %q", r.Queue)
	}
}

func TestKeysOfAQueueAreListedAndSteered(t *testing.T) {
	r := live().press("2").tell(Loaded{Query: Query{Screen: Queues}, At: noon, List: List{
		Heads: []string{"QUEUE"}, Rows: []Row{{"mail", []Cell{{Text: "mail"}}}},
	}}).press("K")
	want := Query{Screen: Keys, Queue: "mail"}
	if got := loads(r.asked); got[len(got)-1] != want {
		t.Fatalf("asked for %v, want %v", got, want)
	}
	r.tell(keysOfMail()).press("down", "p", "y", "P", "n", "down", "P", "y")
	done := []Action{
		{Pause, Thing{Screen: Keys, ID: "客户 a/b", Queue: "mail"}},
		{Resume, Thing{Screen: Keys, ID: "a\x1b[2Jb\nc\u202egpj.exe", Queue: "mail"}},
	}
	if got := acts(r.asked); !slices.Equal(got, done) {
		t.Errorf("did %v, want %v", got, done)
	}
	r.press("/", "7", "enter", "esc")
	if r.Screen != Keys || r.filter != "" {
		t.Errorf("after the first escape: screen %v, filter %q", r.Screen, r.filter)
	}
	if r.press("esc"); r.Screen != Queues {
		t.Errorf("after the second escape: screen %v", r.Screen)
	}
	if r.press("K", "tab"); r.Screen != Workers {
		t.Errorf("behind the keys of a queue comes screen %v", r.Screen)
	}
	if r.press("1", "K", "shift+tab"); r.Screen != Events {
		t.Errorf("before the keys of a queue on the overview comes screen %v", r.Screen)
	}
	for _, digit := range []string{"0", "9"} {
		if r.press(digit); r.Screen != Events {
			t.Errorf("%s turns to screen %v", digit, r.Screen)
		}
	}
	// from all that is known of a queue, and back to its list
	r.press("2", "enter", "K", "enter")
	key := Thing{Screen: Keys, ID: "customer-7", Queue: "mail"}
	if last := r.asked[len(r.asked)-1].Open; last == nil || *last != key {
		t.Errorf("opened %v", last)
	}
	if r.press("esc", "esc"); r.Screen != Queues {
		t.Errorf("back from the keys it shows screen %v", r.Screen)
	}
}

func TestKeysAreReadSeldom(t *testing.T) {
	list := keysOfMail()
	r := live().press("down", "K").tell(list)
	before := len(loads(r.asked))
	r.tell(Tick(list.At.Add(staleKeys - 1)))
	if got := len(loads(r.asked)) - before; got != 0 {
		t.Errorf("keys are read again %d times", got)
	}
	r.press("p", "y").tell(Acted{acts(r.asked)[0], "", nil})
	if got := len(loads(r.asked)) - before; got != 1 {
		t.Errorf("after a pause keys are read %d times", got)
	}
	list.At = noon.Add(time.Minute)
	r.tell(Tick(list.At), list, Tick(list.At.Add(staleKeys)))
	if got := len(loads(r.asked)) - before; got != 2 {
		t.Errorf("old keys are read again %d times", got)
	}
}

func TestLateAnswersOfWhatIsNotOpenAnyMoreAreDropped(t *testing.T) {
	r := live().press("4").tell(deadTasks()).press("enter", "esc", "down", "enter")
	r.tell(Opened{Thing: Thing{Screen: Tasks, ID: "1pq3v0m7d2k5g10"}, Text: "the first"})
	if r.detail == nil || r.detail.Text != "" {
		t.Errorf("it shows %+v", r.detail)
	}
	r.tell(Opened{Thing: Thing{Screen: Tasks, ID: "1pq3v0m7d2k5g11"}, Text: "the second"})
	if r.detail.Text != "the second" {
		t.Errorf("it shows %+v", r.detail)
	}
}

func TestRatesAreOfOneNodeOnly(t *testing.T) {
	r := live()
	other := stand(6)
	other.Overview.Node, other.Overview.Totals.Done = "n2", 1_000_000
	r.tell(other)
	if _, _, seconds := back(r.past); seconds != 0 {
		t.Errorf("a difference between two nodes, of %v seconds", seconds)
	}
	again := stand(8)
	again.Overview.Node, again.Overview.Totals.Done = "n2", 1_000_010
	r.tell(again)
	from, to, seconds := back(r.past)
	if got := float64(to.totals.Done-from.totals.Done) / seconds; got != 5 {
		t.Errorf("%v a second, want 5", got)
	}
}

func TestKeysOfATerminal(t *testing.T) {
	for text, want := range map[string][]Key{
		"a": {"a"}, "\x1b[A\x1bOB": {"up", "down"}, "\r\t ": {"enter", "tab", "space"},
		"\x1b[5~\x1b[6~\x1b[Z": {"pgup", "pgdn", "shift+tab"}, "\x03\x1a": {"ctrl+c", "ctrl+z"},
		"订é":            {"订", "é"},
		"\x1b[1;5C\x01": nil, "\x1b\x1b[A": {"esc", "up"}, "\xffq": {"q"},
		"\x7f": {"backspace"},
	} {
		if got, rest := parseKeys([]byte(text), false); !slices.Equal(got, want) || len(rest) > 0 {
			t.Errorf("%q: %v, %q left, want %v", text, got, rest, want)
		}
	}
	for text, want := range map[string][]Key{
		"\x1b": {"esc"}, "\x1b[": nil, "a\xe8\xae": {"a"},
	} {
		got, rest := parseKeys([]byte(text), false)
		if len(rest) == 0 {
			t.Errorf("%q: nothing is waited for", text)
		}
		last, rest := parseKeys(rest, true)
		if got = append(got, last...); !slices.Equal(got, want) || len(rest) > 0 {
			t.Errorf("%q: %v, %q left, want %v", text, got, rest, want)
		}
	}
}

// What a terminal sends is read the same in whatever pieces it comes.
func FuzzKeysComeInPieces(f *testing.F) {
	f.Add([]byte("a\x1b[A订\x1b"), 2)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		whole, rest := parseKeys(b, false)
		last, _ := parseKeys(rest, true)
		whole = append(whole, last...)
		if cut = min(max(cut, 0), len(b)); len(b) > 200 {
			return
		}
		got, pending := parseKeys(b[:cut], false)
		more, pending := parseKeys(slices.Concat(pending, b[cut:]), false)
		last, left := parseKeys(pending, true)
		if got = slices.Concat(got, more, last); !slices.Equal(got, whole) || len(left) > 0 {
			t.Errorf("%q cut at %d: %v, whole: %v", b, cut, got, whole)
		}
	})
}
