package waiting

import (
	"math/rand/v2"
	"testing"

	"github.com/rotahq/rota/internal/story"
)

// race is two transactions in every order of their statements: what no seed is likely to hit.
type race struct {
	name string
	bug  string // that must be found in it
	rows map[key]any
	runs []func(*world, *process)
	// wrong says what is wrong in the end, besides what the ledger finds
	wrong func(*tx) string
}

var races = []race{
	{
		name: "who begins to wait, and the report of a task under a span of before",
		bug:  "links of a running row are read before it is deleted",
		rows: map[key]any{
			batchKey(1): batchRow{}, taskKey(100): taskRow{}, taskKey(101): taskRow{},
			spanKey(50):        spanRow{lo: 100, hi: 100, token: 1, holder: 1},
			spanKey(51):        spanRow{lo: 101, hi: 101, token: 2, holder: 1},
			runningKey(101, 0): runningRow{span: 50, token: 1},
		},
		runs: []func(*world, *process){
			func(w *world, p *process) {
				w.settle(p, &report{handout: handout{id: 101, span: 50, token: 1}, kind: "done"})
			},
			func(w *world, p *process) {
				w.submit(p, []draft{{after: []need{{101, "ended"}}}})
			},
		},
		wrong: func(now *tx) string {
			f := now.fact(101)
			waits := len(list(now, "wait", func(key, waitRow) bool { return true }))
			told := len(list(now, "change", func(_ key, c changeRow) bool { return c.ended }))
			if f.over() && waits > 0 && told == 0 {
				return "task 101 is over, and nobody tells who waits for it"
			}
			return ""
		},
	},
	{
		name: "who begins to wait for two, and the end of what is above both",
		bug:  "a look locks twice",
		rows: map[key]any{
			batchKey(1): batchRow{}, taskKey(100): taskRow{},
			stepKey(100, 0):         stepRow{kind: "dead", base: final, token: 1},
			batchKey(2):             batchRow{},
			taskKey(200):            taskRow{},
			dependencyKey(100, 200): dependencyRow{fits: "ended"},
			waitKey(200):            waitRow{what: "after", mark: 5},
			spanKey(70):             spanRow{lo: 200, hi: 200, parked: true},
			batchKey(3):             batchRow{parent: 100, run: 0, seq: 0},
			taskKey(300):            taskRow{},
			spanKey(60):             spanRow{lo: 300, hi: 300, linked: upwards},
			childCountKey(100, 0):   counts{total: 1},
			changeKey(81):           changeRow{topic: 100, ended: true},
		},
		runs: []func(*world, *process){
			func(w *world, p *process) { w.look(p, 100) },
			func(w *world, p *process) {
				w.submit(p, []draft{{after: []need{{200, "ended"}, {300, "ended"}}}})
			},
		},
		wrong: func(*tx) string { return "" },
	},
}

// inEveryOrder tries all orders of a race, and answers the first thing that is wrong.
func (r *race) inEveryOrder(bug string) (wrong string, orders int) {
	var script []int
	for {
		w := &world{
			database: newDatabase(), Rand: rand.New(rand.NewPCG(1, 1)), bug: bug,
			counts: map[string]int{},
		}
		w.ids = 1000
		for k, row := range r.rows {
			t := w.present()
			t.written = map[key]any{}
			t.put(k, row)
			t.commit()
		}
		w.ledger = newLedger(w)
		w.ledger.waits(w.present())
		for k := range r.rows {
			if k.table == "dependency" {
				w.ledger.links[k] = map[string]bool{"dead": true}
				w.ledger.held[5] = map[string]bool{"after": true}
			}
		}
		var open []int // how many could go on at each choice
		w.pick = func(n int) int {
			at := len(open)
			open = append(open, n)
			if at == len(script) {
				script = append(script, 0)
			}
			return script[at]
		}
		for _, run := range r.runs {
			w.start("racer", -1, func(p *process) { run(w, p) })
		}
		for w.step() && !w.ledger.found() {
		}
		for len(w.processes) > 0 {
			w.finish(w.processes[0])
		}
		orders++
		if w.ledger.found() {
			return w.ledger.breaches[0], orders
		}
		if wrong := r.wrong(w.present()); wrong != "" {
			return wrong, orders
		}
		script = script[:len(open)]
		for len(script) > 0 && script[len(script)-1]+1 >= open[len(script)-1] {
			script = script[:len(script)-1]
		}
		if len(script) == 0 {
			return "", orders
		}
		script[len(script)-1]++
	}
}

func TestRacesEndWellInEveryOrder(t *testing.T) {
	for i := range races[:story.Often(len(races), 1)] {
		r := &races[i]
		t.Run(r.name, func(t *testing.T) {
			wrong, orders := r.inEveryOrder("")
			if wrong != "" {
				t.Error(wrong)
			}
			t.Logf("%d orders", orders)
			if wrong, orders = r.inEveryOrder(r.bug); wrong == "" {
				t.Errorf("%s: not found in %d orders", r.bug, orders)
			}
			t.Log(wrong)
		})
	}
}
