package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// stages runs a file's task through its stages, with before called before each.
func stages(t *testing.T, path string, before func(stage string)) account {
	t.Helper()
	text, err := json.Marshal(fileFacts{subject: subjectOf(path)})
	if err != nil {
		t.Fatal(err)
	}
	stage := stageRead
	for {
		before(stage)
		var f fileFacts
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		o := map[string]func(context.Context, fileFacts) task.Outcome{
			stageRead: readStage, stageDigest: digestStage, stageVerify: verifyStage,
		}[stage](t.Context(), f)
		switch o.Kind {
		case task.KindNext:
			stage, text = o.Stage, o.Context
		case task.KindDone:
			var a account
			if err := json.Unmarshal(o.Result, &a); err != nil {
				t.Fatal(err)
			}
			return a
		default:
			t.Fatalf("stage %s ended with %+v", stage, o)
		}
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStagesAgreeWithADirectReading(t *testing.T) {
	folder := t.TempDir()
	names := map[string]string{
		"plain": "hello", "empty": "", "large": strings.Repeat("0123456789abcdef", 20_000),
		"line\nbreak \u2028": "x",
	}
	if runtime.GOOS == "linux" { // where a name may be any bytes
		names["not \xff UTF-8"] = "y"
	}
	for name, text := range names {
		path := filepath.Join(folder, name)
		writeFile(t, path, text)
		a, r := stages(t, path, func(string) {}), readDirectly(path)
		same := a.name() == path && a.Size == int64(len(text)) && a.Size == r.size &&
			a.SHA256 == r.sha256
		if !same || a.Changed || a.Unreadable != "" || r.err != nil {
			t.Errorf("%q: the task says %+v, the direct reading %+v", name, a, r)
		}
	}
}

func TestVerifyNoticesAChangeBetweenStages(t *testing.T) {
	for _, at := range []string{stageDigest, stageVerify} {
		path := filepath.Join(t.TempDir(), "f")
		writeFile(t, path, "before")
		a := stages(t, path, func(stage string) {
			if stage == at {
				writeFile(t, path, "after!")
			}
		})
		if !a.Changed {
			t.Errorf("a change before stage %s went unnoticed: %+v", at, a)
		}
	}
}

func TestVanishedFileIsUnreadableInEveryStage(t *testing.T) {
	for _, at := range []string{stageRead, stageDigest, stageVerify} {
		path := filepath.Join(t.TempDir(), "f")
		writeFile(t, path, "text")
		a := stages(t, path, func(stage string) {
			if stage == at {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		})
		if !strings.Contains(a.Unreadable, "no such file") && runtime.GOOS != "windows" ||
			a.Unreadable == "" {
			t.Errorf("removed before stage %s: %+v", at, a)
		}
	}
}

func TestStoppedWorkerGivesTheFileBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	writeFile(t, path, "text")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := readStage(ctx, fileFacts{subject: subjectOf(path)}); o.Kind != task.KindRetry {
		t.Errorf("outcome %+v, want a retry", o)
	}
}

// A larger file's context must go to the blob folder, and no file's context may pass the queue's
// limit.
func TestContextsOfLargerFilesGoToTheBlobFolderAndFit(t *testing.T) {
	for _, c := range []struct {
		size int64
		blob bool
	}{
		{0, false}, {100 << 10, false}, {256 << 10, true}, {40 << 20, true}, {1 << 30, true},
		{1 << 50, true},
	} {
		chunk := int64(chunkSize(c.size))
		chunks := (c.size + chunk - 1) / chunk
		text, err := json.Marshal(fileFacts{
			Size: c.size, Chunk: int(chunk), SHA256: strings.Repeat("f", 64),
			Chunks: slices.Repeat([]string{strings.Repeat("f", 64)}, int(chunks)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > store.InlineLimit != c.blob || len(text) > limits.DefaultContextLimit {
			t.Errorf("a file of %d bytes has %d chunks and a context of %d bytes", c.size, chunks,
				len(text))
		}
	}
}

// The check must not say that a file is accounted for when it is not; and trouble of the file's own
// must not look like ours.
func TestCompareBelievesOnlyWhatBothReadingsSay(t *testing.T) {
	e := entry{ID: task.ID{Batch: 1 << 40}, subject: subjectOf("/f"), Size: 4, Modified: 7}
	same := reading{size: 4, modified: 7, sha256: "aa"}
	touched := reading{size: 4, modified: 8, sha256: "bb"}
	gone := reading{err: fs.ErrNotExist}
	good := account{subject: e.subject, Size: 4, SHA256: "aa"}
	for _, c := range []struct {
		name   string
		state  task.State
		result account
		direct reading
		want   fileVerdict
	}{
		{"same", task.Done, good, same, fileSame},
		{"touched, not changed", task.Done, good, reading{size: 4, modified: 8, sha256: "aa"},
			fileSame},
		{"wrong digest", task.Done, account{subject: e.subject, Size: 4, SHA256: "ab"}, same,
			fileWrong},
		{"wrong size", task.Done, account{subject: e.subject, Size: 5, SHA256: "aa"}, same,
			fileWrong},
		{"another file", task.Done, account{subject: subjectOf("/g"), Size: 4, SHA256: "aa"}, same,
			fileWrong},
		{"no result", task.Done, account{}, same, fileWrong},
		{"not done", task.Ready, good, same, fileWrong},
		{"dead", task.Dead, good, same, fileWrong},
		{"unknown to the server", "", account{}, same, fileWrong},
		{"two readings differ", task.Done,
			account{subject: e.subject, Size: 4, SHA256: "aa", Changed: true}, same, fileWrong},
		{"unreadable for the worker only", task.Done,
			account{subject: e.subject, Unreadable: "open: no"}, same, fileWrong},
		{"unreadable for both", task.Done, account{subject: e.subject, Unreadable: "open: no"},
			gone, fileUnreadable},
		{"written afterwards", task.Done, good, touched, fileChanged},
		{"written meanwhile", task.Done,
			account{subject: e.subject, Size: 4, SHA256: "bb", Changed: true}, touched,
			fileChanged},
		{"removed afterwards", task.Done, good, gone, fileChanged},
	} {
		result, err := json.Marshal(c.result)
		if err != nil {
			t.Fatal(err)
		}
		if got, text := e.compare(
			task.View{State: c.state, Result: result}, c.direct,
		); got != c.want || (text == "") != (got == fileSame) {
			t.Errorf("%s: verdict %d (%s), want %d", c.name, got, text, c.want)
		}
	}
}

func TestTotalsCountWhatTheStepsSay(t *testing.T) {
	e := entry{subject: subjectOf("/f"), Size: 4}
	result, err := json.Marshal(account{subject: e.subject, Size: 4, SHA256: "aa"})
	if err != nil {
		t.Fatal(err)
	}
	steps := func(kinds ...task.Kind) (s []task.Step) {
		for _, k := range kinds {
			s = append(s, task.Step{Kind: k})
		}
		return s
	}
	var sum totals
	same := reading{size: 4, sha256: "aa"}
	sum.add(e, task.View{State: task.Done, Result: result,
		Steps: steps(task.KindNext, task.KindNext, task.KindDone)}, same)
	sum.add(e, task.View{State: task.Done, Result: result, Steps: steps(
		task.KindNext, task.KindLost, task.KindTimeout, task.KindRelease, task.KindNext,
		task.KindDone)}, same)
	sum.add(e, task.View{State: task.Dead, Steps: steps(task.KindRetry)}, same)
	if sum.files != 3 || sum.bytes != 8 || sum.stages != 6 || sum.reruns != 3 ||
		sum.wrong.count != 1 {
		t.Errorf("totals %+v", &sum)
	}
}

// walked is what a walk over root submitted, and wrote into its ledger.
func walked(t *testing.T, w *walker) (entries []entry, gathers []int) {
	t.Helper()
	ledger, err := os.Create(filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	n := int32(0)
	w.ledger = json.NewEncoder(ledger)
	w.submit = func(_ context.Context, tasks ...task.Submission) ([]task.Receipt, error) {
		receipts := make([]task.Receipt, len(tasks))
		for i := range tasks {
			receipts[i].ID = task.ID{Batch: 1, N: n}
			n++
		}
		gathers = append(gathers, len(tasks))
		return receipts, nil
	}
	if err := w.walk(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := readLedger(ledger.Name(), func(e entry) error {
		entries = append(entries, e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return entries, gathers
}

func TestWalkSubmitsEachFileOnceAndPassesTheRestBy(t *testing.T) {
	root := t.TempDir()
	own := filepath.Join(root, "own")
	for _, dir := range []string{own, filepath.Join(root, ".git", "deep")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		filepath.Join(root, ".git", "deep", "HEAD"), filepath.Join(root, "a"),
		filepath.Join(root, "b"),
	}
	for _, path := range append(want, filepath.Join(own, "rota.db")) {
		writeFile(t, path, path)
	}
	for _, target := range []string{"a", "nowhere", "."} {
		if err := os.Symlink(
			target, filepath.Join(root, "link-to-"+strings.Trim(target, ".")),
		); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(own)
	if err != nil {
		t.Fatal(err)
	}
	w := &walker{root: root, avoid: info}
	entries, _ := walked(t, w)
	var got []string
	for i, e := range entries {
		got = append(got, e.name())
		if e.ID.N != int32(i) || e.Size != int64(len(e.name())) || e.Modified == 0 {
			t.Errorf("entry %+v", e)
		}
	}
	if !slices.Equal(got, want) || w.submitted.Load() != 3 || w.special.count != 3 ||
		w.closed.count != 0 {
		t.Errorf("submitted %d, %q; want %q; passed by %+v %+v", w.submitted.Load(), got, want,
			w.special, w.closed)
	}
}

func TestWalkSubmitsInGathers(t *testing.T) {
	root := t.TempDir()
	for i := range gatherFiles + 1 {
		writeFile(t, filepath.Join(root, strings.Repeat("x", i%50+1)+string(rune('a'+i/50))), "")
	}
	if entries, gathers := walked(t, &walker{root: root}); len(entries) != gatherFiles+1 ||
		!slices.Equal(gathers, []int{gatherFiles, 1}) {
		t.Errorf("%d entries in gathers of %v", len(entries), gathers)
	}
}

func TestCheckTellsAMissingTaskFromAServerInTrouble(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	writeFile(t, path, "text")
	ledger, err := os.Create(filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	if err := json.NewEncoder(ledger).Encode(
		entry{ID: task.ID{Batch: 1}, subject: subjectOf(path)},
	); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err   error
		wrong int64
	}{{&client.Error{Status: 404}, 1}, {client.ErrUnreachable, 0}} {
		view := func(context.Context, task.ID) (task.View, error) { return task.View{}, c.err }
		sum, err := check(t.Context(), ledger.Name(), view, func(int64) {})
		if sum.wrong.count != c.wrong || (c.wrong == 0) != errors.Is(err, c.err) {
			t.Errorf("%v: %d wrong, error %v", c.err, sum.wrong.count, err)
		}
	}
}

func TestQuotedWordsAreOneWordForAShell(t *testing.T) {
	for word, want := range map[string]string{"/usr/bin/rota": "/usr/bin/rota", "a b": "'a b'",
		"it's": `'it'\''s'`, "$x": "'$x'"} {
		if got := quoted(word); got != want {
			t.Errorf("quoted(%q) = %s, want %s", word, got, want)
		}
	}
}

// The held task's outcome comes after the silence limit, and the rest begins after the kill:
// neither wait is time at work.
func TestTotalsTimeOnlyWhatWorkersDid(t *testing.T) {
	result, err := json.Marshal(account{subject: subjectOf("/f"), Size: 4, SHA256: "aa"})
	if err != nil {
		t.Fatal(err)
	}
	at := func(ms int) time.Time {
		return time.Unix(1_800_000_000, 0).Add(time.Duration(ms) * time.Millisecond)
	}
	step := func(k task.Kind, began, ended int) task.Step {
		return task.Step{Kind: k, Started: at(began), Finished: at(ended)}
	}
	var sum totals
	if sum.atWork() != 0 {
		t.Errorf("nothing took %v", sum.atWork())
	}
	for _, c := range []struct {
		rest  bool
		steps []task.Step
	}{
		{false, []task.Step{step(task.KindLost, 0, 5_000), step(task.KindDone, 5_000, 5_010)}},
		{false, []task.Step{step(task.KindNext, 30, 60), step(task.KindDone, 70, 130)}},
		{false, []task.Step{step(task.KindNext, 20, 50), {Kind: task.KindMoved},
			step(task.KindDone, 60, 120)}},
		{true, []task.Step{step(task.KindNext, 1_500, 1_600), step(task.KindDone, 1_650, 1_700)}},
	} {
		e := entry{subject: subjectOf("/f"), Size: 4, Rest: c.rest}
		sum.add(e, task.View{State: task.Done, Result: result, Steps: c.steps}, reading{
			size: 4, sha256: "aa",
		})
	}
	if sum.steady != 3 || sum.atWork() != 310*time.Millisecond {
		t.Errorf("%d tasks in %v at work, want 3 in 310ms", sum.steady, sum.atWork())
	}
}

func TestDemoKillsAtAThird(t *testing.T) {
	for _, files := range []int64{1, 2, 3, 30, 988, 10_000_000} {
		done := untilKill(files) - 1 // one is held
		if done != files/3 && files > 1 || done < 0 || done >= files {
			t.Errorf("%d of %d done at the kill", done, files)
		}
	}
}

func TestWalkTakesNoMoreThanItIsTold(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		writeFile(t, filepath.Join(root, name), name)
	}
	own, err := os.Stat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64]int{0: 3, 1: 1, 2: 2, 3: 3, 4: 3} {
		w := &walker{root: root, avoid: own, most: most}
		if entries, _ := walked(t, w); len(entries) != want || w.cut != (want < 3) {
			t.Errorf("at most %d: %d files, cut: %v", most, len(entries), w.cut)
		}
		if n, err := countRegular(t.Context(), root, own, most); err != nil || n != int64(want) {
			t.Errorf("at most %d: counted %d, %v", most, n, err)
		}
	}
}
