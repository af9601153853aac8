package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// metas are what tasks may carry, the odd ones among them: all that may need care in JSON, and as
// much as is allowed.
func metas() []map[string]string {
	large := map[string]string{}
	for i := range 7 {
		large[fmt.Sprintf("k%d", i)] = strings.Repeat("\u00fc", 128)
	}
	many := map[string]string{}
	for i := range limits.MaxMeta {
		many[fmt.Sprintf("k%d", i)] = strings.Repeat(`"`, i)
	}
	return []map[string]string{
		{"customer": "7"},
		nil,
		{"customer": "77", "region": ""},
		{"a": `"customer":"7"`, "customer": `7\`},
		{"customer": `7"`, "z": `\","customer":"7`},
		{"A.b-c:d@e+f": "{},:[] \u2028 😀 <&>", "顧客": "七"},
		large,
		many,
	}
}

// metaClaims is what holds for the short strings that tasks carry.
func metaClaims() []claim {
	return []claim{
		{"MetaComesBackByteForByteInAnyCompany", func(s *scene) {
			h := s.join("a")
			all := metas()
			b := s.batch("q", 3*len(all)*10)
			for i := range b.Tasks {
				b.Tasks[i].Meta = store.MetaOf(all[i%len(all)])
				if i%5 == 0 { // what else a task may have, and a row that ends early
					b.Tasks[i].GroupKey, b.Tasks[i].Timeout = strings.Repeat("g", 256), 5
					b.Tasks[i].Context = store.Value(caller.JSON(store.InlineLimit))
				}
			}
			s.submit(store.Holder{}, b)
			for _, sp := range s.take(h, len(b.Tasks)) {
				for _, l := range sp.Tasks {
					s.want("meta as loaded", l.Meta, b.Tasks[l.N].Meta)
				}
			}
			for i := range b.Tasks {
				id := task.ID{Batch: b.ID, N: int32(i)}
				if s.want("meta", s.view(id).Meta, all[i%len(all)]); i%17 == 0 {
					s.want("meta where it stands", s.stand(id).Meta, b.Tasks[i].Meta)
				}
			}
		}},
		{"MetaStaysThroughStagesRetriesAndReplays", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 2)
			b.Tasks[0].Meta = store.MetaOf(map[string]string{"customer": "7"})
			s.submit(store.Holder{}, b)
			o := s.takeOne(h)
			next := task.Next("second", nil)
			next.Context = []byte(`{}`)
			s.recorded(o.Report(s.clock, next))
			o = s.takeAgain(h, o)
			s.want("meta in the next stage", o.Meta, b.Tasks[0].Meta)
			s.recorded(o.Report(s.clock, task.Snooze(time.Hour)))
			s.clock.Advance(time.Hour)
			h = s.join("b")
			o = s.takeOnly(h, o.ID())
			s.want("meta in a span of its own", o.Meta, b.Tasks[0].Meta)
			s.recorded(o.Report(s.clock, task.Fail(errors.New("no"))))
			s.want("meta of a dead task", s.view(o.ID()).Meta, map[string]string{"customer": "7"})
			s.changed(task.KindReplayed, o.ID())
			o = s.takeOnly(h, o.ID())
			s.want("meta after a replay", o.Meta, b.Tasks[0].Meta)
			s.want("meta of its neighbour", len(s.view(task.ID{Batch: b.ID, N: 1}).Meta), 0)
		}},
		{"NoticesCarryMeta", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			r := o.Report(s.clock, task.Fail(nil))
			notice := s.batch("told", 1)
			notice.Tasks[0].Meta = store.MetaOf(map[string]string{"customer": "7"})
			r.Notice = &notice
			s.recorded(r)
			s.want("meta of the notice", s.view(task.ID{Batch: notice.ID}).Meta,
				map[string]string{"customer": "7"})
		}},
		{"EveryFilterSelectsByMeta", showMetaFilters},
		{"RetentionLeavesTheMetaOfOthersInThePack", func(s *scene) {
			h := s.join("a")
			b := s.batch("q", 150)
			for i := range b.Tasks {
				if i%3 > 0 {
					b.Tasks[i].Meta = store.MetaOf(map[string]string{"third": fmt.Sprint(i % 3)})
				}
			}
			s.submit(store.Holder{}, b)
			var outs []caller.Handout
			for _, sp := range s.take(h, 100) {
				for _, l := range sp.Tasks {
					outs = append(outs, caller.Handout{Span: sp.Span, Loaded: l})
				}
			}
			s.recorded(finishAll(s, outs[1:])...) // the first with a meta goes, the last ones stay
			s.clock.Advance(limits.DefaultRetention + time.Hour)
			s.prune()
			s.want("left", len(s.list(store.Filter{})), 51)
			for i := 100; i < 150; i++ {
				want := map[string]string{"third": fmt.Sprint(i % 3)}
				if i%3 == 0 {
					want = nil
				}
				s.want("meta", s.view(task.ID{Batch: b.ID, N: int32(i)}).Meta, want)
			}
			s.want("of the first third",
				len(s.list(store.Filter{Meta: `{"third":"1"}`})), 17)
		}},
	}
}

// showMetaFilters makes tasks in every state, with metas that resemble each other and of many in
// one pack, and asks for them in every way.
func showMetaFilters(s *scene) {
	h := s.join("a")
	seven := store.MetaOf(map[string]string{"customer": "7"})
	both := store.MetaOf(map[string]string{"customer": "7", "region": "eu"})
	b := s.batch("q", 100)
	for i, m := range metas() {
		b.Tasks[10+i].Meta = store.MetaOf(m)
	}
	const done, dead, running, cancelled, ready = 0, 1, 2, 3, 4
	for n := range 5 {
		b.Tasks[n].Meta = []store.Meta{seven, both}[n%2]
	}
	b.Tasks[dead].Key, b.Tasks[dead].KeyUntil = "k", b.Due+1e15
	s.submit(h, b)
	asleep := s.batch("r", 2)
	asleep.Due += time.Hour.Microseconds()
	asleep.Tasks[1].Meta = both
	s.submit(h, asleep)
	first, second, third := s.takeOne(h), s.takeOne(h), s.takeOne(h)
	s.recorded(first.Report(s.clock, task.Finish(nil)),
		second.Report(s.clock, task.Fail(errors.New("no"))))
	s.sync(h, third)
	s.changed(task.KindCancelled, task.ID{Batch: b.ID, N: cancelled})
	in := func(ns ...int32) (ids []task.ID) {
		for _, n := range ns {
			ids = append(ids, task.ID{Batch: b.ID, N: n})
		}
		return ids
	}
	waits := task.ID{Batch: asleep.ID, N: 1}
	for _, c := range []struct {
		what   string
		filter store.Filter
		want   []task.ID
	}{
		{"one string", store.Filter{Meta: seven}, append(in(0, 1, 2, 3, 4, 10), waits)},
		{"two strings", store.Filter{Meta: both}, append(in(1, 3), waits)},
		{"an empty string", store.Filter{Meta: `{"region":""}`}, in(12)},
		{"a string that another has in it", store.Filter{Meta: `{"customer":"77"}`}, in(12)},
		{"a string that ends with a backslash", store.Filter{Meta: `{"customer":"7\\"}`}, in(13)},
		{"a string that ends with a quote", store.Filter{Meta: `{"customer":"7\""}`}, in(14)},
		{"the end of a name", store.Filter{Meta: `{"tomer":"7"}`}, nil},
		{"another script", store.Filter{Meta: `{"顧客":"七"}`}, in(15)},
		{"many strings", store.Filter{Meta: b.Tasks[17].Meta}, in(17)},
		{"nobody's", store.Filter{Meta: `{"customer":"8"}`}, nil},
		{"done", store.Filter{Meta: seven, State: task.Done}, in(done)},
		{"dead", store.Filter{Meta: seven, State: task.Dead}, in(dead)},
		{"running", store.Filter{Meta: seven, State: task.Running}, in(running)},
		{"cancelled", store.Filter{Meta: seven, State: task.Cancelled}, in(cancelled)},
		{"ready", store.Filter{Meta: seven, State: task.Ready}, in(ready, 10)},
		{"waiting", store.Filter{Meta: seven, State: task.Waiting}, []task.ID{waits}},
		{"a queue", store.Filter{Meta: seven, Queue: "r"}, []task.ID{waits}},
		{"a stage", store.Filter{Meta: both, Stage: "first"}, append(in(1, 3), waits)},
		{"a key", store.Filter{Meta: both, Key: "k"}, in(dead)},
		{"another's key", store.Filter{Meta: `{"customer":"77"}`, Key: "k"}, nil},
		{"a worker", store.Filter{Meta: both, Worker: "w"}, in(dead)},
		{"a worker and done", store.Filter{Meta: seven, Worker: "w", State: task.Done}, in(done)},
	} {
		s.want("tasks of "+c.what, s.list(c.filter), c.want)
	}
}
