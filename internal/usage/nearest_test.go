package usage

import "testing"

func TestNearestIsWhatWasProbablyMeant(t *testing.T) {
	known := []string{"queue", "task", "worker", "watch", "state", "stage", "max-attempts", "top"}
	for word, want := range map[string]string{
		"quue": "queue", "qeueu": "queue", "tsak": "task", "tasks": "task", "wach": "watch",
		"stat": "state", "stgae": "stage", "workers": "worker", "max-attempt": "max-attempts",
		"max": "max-attempts", "tops": "top", "xyz": "", "": "", "t": "", "q": "", "zzzzzz": "",
		"tpo": "top", "状态": "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
