package notify

import (
	"context"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/store"
)

func TestTemplatesThatCostTooMuchAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ template, wrong string }{
		"endless loop": {`{{range 1000000000000}}{{end}}1`, "repeats something"},
		"loops in loops": {strings.Repeat("{{range 10}}", 30) +
			strings.Repeat("{{end}}", 30) + "1", "repeats something"},
		"loop in else": {`{{if .Seq}}{{with ""}}{{else}}{{range 100000}}{{end}}{{end}}{{end}}1`,
			"repeats something"},
		"loop that goes on": {`{{range 100000}}{{continue}}{{end}}1`, "repeats something"},
		"loop over fields": {strings.Repeat("{{range $.Fields}}{{range 9}}", 8) +
			strings.Repeat("{{end}}", 16) + "1", "repeats something"},
		"calls itself": {`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`,
			"repeats something"},
		"calls itself twice": {`{{define "a"}}{{if lt . 90}}{{template "a" .}}{{template "a" .}}{{end}}{{end}}{{template "a" 1}}`,
			"repeats something"},
		"calls many": {`{{define "a"}}{{end}}{{range 9999}}{{template "a"}}{{end}}1`,
			"repeats something"},
		"doubles by print": {`{{$x := .Kind}}` + strings.Repeat(`{{$x = print $x $x}}`, 100) +
			"1", "makes more than"},
		"doubles by printf": {`{{$x := .Kind}}` +
			strings.Repeat(`{{$x = printf "%s%s" $x $x}}`, 100) + "1", "makes more than"},
		"doubles by println": {`{{$x := .Kind}}` + strings.Repeat(`{{$x = println $x $x}}`, 100) +
			"1", "makes more than"},
		"grows by html": {`{{$x := "<<<<<<<<"}}` + strings.Repeat(`{{$x = html $x}}`, 400) +
			"1", "makes more than"},
		"grows by js": {`{{$x := "<<<<<<<<"}}` + strings.Repeat(`{{$x = js $x $x}}`, 400) +
			"1", "makes more than"},
		"grows by urlquery": {`{{$x := "<<<<<<<<"}}` +
			strings.Repeat(`{{$x = urlquery $x}}`, 400) + "1", "makes more than"},
		"one argument twice":   {`{{printf "%[1]s%[1]s" .Kind}}`, "not known here"},
		"width of an argument": {`{{printf "%*d" 900000 1}}`, "not known here"},
		"wide":                 {`{{printf "%900000d" 1}}`, "width must be at most"},
		"wide part":            {`{{printf "%-08.900000f" 1.0}}`, "width must be at most"},
		"many wide": {`{{$x := printf "` + strings.Repeat("%999d", 1100) + `" 1}}1`,
			"makes more than"},
		"long": {`{{range 9000}}{{$.Text}}.................{{end}}`,
			"longer than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			n := webhook()
			n.Format = "generic"
			if n.Template = c.template; len(n.Template) > maxTemplate {
				t.Fatalf("%d bytes", len(n.Template))
			}
			if err := rendered(&n); err == nil || !strings.Contains(err.Error(), c.wrong) ||
				strings.Contains(err.Error(), stepName) {
				t.Errorf("%.300v, want %q", err, c.wrong)
			}
		})
	}
}

func TestTemplatesMayStillLoopAndCall(t *testing.T) {
	for template, want := range map[string]string{
		`{"n":[{{range $i := 5}}{{if $i}},{{end}}{{$i}}{{end}}]}`:                        `{"n":[0,1,2,3,4]}`,
		`{{define "q"}}"{{.}}"{{end}}[{{template "q" .Kind}},{{template "q" .Subject}}]`: `["node.offline","a\"b\\c"]`,
		`{"a":"{{printf "%-5s|%05.1f|%%|%d" .Kind 2.5 .Seq}}"}`:                          `{"a":"node.offline|002.5|%|1"}`,
		`["{{range $k, $v := .Fields}}{{$k}}={{$v}}{{else}}none{{end}}"]`:                `["k\"=v\""]`,
	} {
		n := webhook()
		n.Format, n.Template = "generic", template
		f := formats[n.Format]
		got, err := f.render(&n, sample(&n), "", "")
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", template, got, err, want)
		}
	}
}

// inside stands in for a store whose transaction is open while it calls a change.
type insideBook struct {
	Store
	t *testing.T
}

func (b insideBook) ChangeNotifier(
	_ context.Context, _ string, change store.Change[store.Notifier],
) (store.Changed[store.Notifier], error) {
	var n store.Notifier
	allocs := testing.AllocsPerRun(1, func() {
		if err := change(&n, false); err == nil {
			b.t.Error("a bad template was stored")
		}
	})
	if allocs > 1000 {
		b.t.Errorf("the change made %v allocations inside the transaction: it renders", allocs)
	}
	return store.Changed[store.Notifier]{}, change(&n, false)
}

func TestNoTemplateIsRenderedInsideATransaction(t *testing.T) {
	h, err := New(Config{Store: insideBook{t: t}})
	if err != nil {
		t.Fatal(err)
	}
	n := webhook()
	n.Template = `{{range 9000}}{{$.Text | len}}{{end}}x`
	if _, err := h.PutNotifier(t.Context(), n); err == nil ||
		!strings.Contains(err.Error(), "body.template") {
		t.Errorf("%v, want it to name the template", err)
	}
}
