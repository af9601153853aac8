package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// eventClaims is what holds for Append and Events.
func eventClaims() []claim {
	return []claim{
		{"EventsComeBackInTheOrderInWhichTheyWereAppended", func(s *scene) {
			at := s.clock.Micros()
			first := store.Event{
				Key: "a/1", Kind: "node.online", Subject: "a", Text: "☃ 'node' \"a\"\n",
				Fields: map[string]string{"token": "1", "": "日本"},
			}
			s.appended(2, first, store.Event{Key: "b/1", Kind: "node.online", Seq: 77, Time: 77})
			s.clock.Advance(time.Second)
			s.appended(1, store.Event{Key: "a/2"})
			first.Seq, first.Time = 1, at
			s.want("the log", s.events(store.EventQuery{Limit: 10}), []store.Event{
				first, {Seq: 2, Time: at, Key: "b/1", Kind: "node.online"},
				{Seq: 3, Time: at + 1e6, Key: "a/2"},
			})
		}},
		{"AnEventStandsOnceHoweverOftenItIsReported", func(s *scene) {
			s.appended(1, event("x"), event("x"))
			s.appended(0, event("x"))
			s.appended(2, event("y"), event("x"), event("z"), event("y"))
			s.want("keys", s.keys(store.EventQuery{Limit: 10}), []string{"1 x", "2 y", "3 z"})
			s.appended(0)
			s.want("keys", s.keys(store.EventQuery{Limit: 10}), []string{"1 x", "2 y", "3 z"})
		}},
		{"AnEventStandsWhateverBytesItHas", func(s *scene) {
			odd := store.Event{
				Key: "x\x00\xff", Kind: "k", Subject: "\x00\xff", Text: "\x00\xff",
				Fields: map[string]string{"\x00\xff": "\x00\xff"},
			}
			s.appended(2, odd, event("y"))
			s.appended(1, odd, event("z"))
		}},
		{"ManyAtOnceLeaveNoGapAndNothingAppearsBehindAReader", func(s *scene) {
			s.showGapless(8, 12)
		}},
		{"EventTimesNeverGoBack", func(s *scene) {
			s.appended(1, event("x"))
			at := s.clock.Micros()
			s.clock.Advance(-time.Hour)
			s.appended(1, event("y"))
			s.clock.Advance(time.Hour + time.Second)
			s.appended(1, event("z"))
			for i, e := range s.events(store.EventQuery{Limit: 10}) {
				s.want(fmt.Sprintf("time of event %d", e.Seq), e.Time, []int64{at, at, at + 1e6}[i])
			}
		}},
		{"EventsAreReadInPages", func(s *scene) {
			for i := range 7 {
				s.appended(1, event(fmt.Sprint(i)))
			}
			page, err := s.Events(s.ctx, store.EventQuery{After: 2, Limit: 3})
			s.ok(err)
			s.want("seqs and next",
				[]int64{page.Events[0].Seq, page.Events[2].Seq, int64(len(page.Events)), page.Next},
				[]int64{3, 5, 3, 5})
			page, err = s.Events(s.ctx, store.EventQuery{After: 7, Limit: 3})
			s.ok(err)
			s.want("the end", page, store.EventPage{Next: 7})
			page, err = s.Events(s.ctx, store.EventQuery{After: 99, Limit: 3})
			s.ok(err)
			s.want("behind the end", page, store.EventPage{Next: 99})
		}},
		{"EventsAreSelectedByKindAndTime", func(s *scene) {
			s.appended(2, store.Event{Key: "1", Kind: "node.online"}, store.Event{
				Key: "2", Kind: "store.full",
			})
			s.clock.Advance(time.Second)
			since := s.clock.Micros()
			s.appended(3, store.Event{Key: "3", Kind: "nodes"},
				store.Event{Key: "4", Kind: "store.ok"}, store.Event{
					Key: "5", Kind: "node.offline",
				})
			for _, c := range []struct {
				q    store.EventQuery
				want []string
			}{
				{store.EventQuery{Kinds: []string{"node.*"}, Limit: 9}, []string{"1 1", "5 5"}},
				{store.EventQuery{Kinds: []string{"store.ok", "nodes"}, Limit: 9},
					[]string{"3 3", "4 4"}},
				{store.EventQuery{Kinds: []string{"*"}, Since: since, Limit: 9},
					[]string{"3 3", "4 4", "5 5"}},
				{store.EventQuery{Since: since, After: 3, Limit: 9}, []string{"4 4", "5 5"}},
				{store.EventQuery{Since: since + 1, Limit: 9}, nil},
				{store.EventQuery{Kinds: []string{"none"}, Limit: 9}, nil},
				{store.EventQuery{Kinds: []string{"node.*", "store.*"}, Since: since, Limit: 1},
					[]string{"4 4"}},
			} {
				s.want(fmt.Sprintf("%+v", c.q), s.keys(c.q), c.want)
			}
			page, err := s.Events(s.ctx, store.EventQuery{Kinds: []string{"none"}, Limit: 9})
			s.ok(err)
			s.want("next, when nothing was selected", page.Next, int64(5))
			page, err = s.Events(s.ctx, store.EventQuery{Kinds: []string{"store.*"}, Limit: 1})
			s.ok(err)
			s.want("next leaves nothing out",
				len(s.keys(store.EventQuery{After: page.Next, Kinds: []string{"store.*"},
					Limit: 9})), 1)
		}},
		{"RetentionTakesEventsFromTheFront", func(s *scene) {
			s.appended(2, event("1"), event("2"))
			s.clock.Advance(time.Hour)
			s.appended(1, event("3"))
			s.clock.Advance(store.EventsKept - time.Hour - time.Second)
			s.prune()
			s.want("a second before", len(s.keys(store.EventQuery{Limit: 9})), 3)
			s.clock.Advance(time.Second)
			n, err := s.Prune(s.ctx, 1)
			s.ok(err)
			s.want("pruned at a limit of 1", n, 1)
			s.want("left", s.keys(store.EventQuery{Limit: 9}), []string{"2 2", "3 3"})
			s.prune()
			s.want("left", s.keys(store.EventQuery{Limit: 9}), []string{"3 3"})
			s.appended(1, event("1"), event("3"))
			s.want("a key that was forgotten", s.keys(store.EventQuery{Limit: 9}),
				[]string{"3 3", "4 1"})
			s.clock.Advance(store.EventsKept)
			s.prune()
			s.want("left", s.keys(store.EventQuery{Limit: 9}), []string(nil))
			s.appended(1, event("9"))
			s.want("after an empty log", s.keys(store.EventQuery{Limit: 9}), []string{"5 9"})
		}},
	}
}

// notifierClaims is what holds for the notifiers.
func notifierClaims() []claim {
	return []claim{
		{"NotifiersComeBackWithTheirSecrets", func(s *scene) {
			for _, name := range []string{"b", "a"} {
				s.putNotifier(notifier(name), true)
			}
			got := s.notifiers()
			s.want("notifiers", got, []store.Notifier{notifier("a"), notifier("b")})
			changed := store.Notifier{Name: "a", Kind: "email", On: []string{"*"},
				Server: "mail:587", TLS: "required", User: "u", From: "f@x",
				To:      []string{"t@x", "u@x"},
				Secrets: store.Secrets{Password: "p☃"}}
			s.putNotifier(changed, false)
			s.want("notifiers", s.notifiers(), []store.Notifier{changed, notifier("b")})
			s.ok(s.DeleteNotifier(s.ctx, "a"))
			s.wantErr("delete it again", s.DeleteNotifier(s.ctx, "a"), store.ErrNotFound)
			s.want("notifiers", s.notifiers(), []store.Notifier{notifier("b")})
		}},
		{"ANewNotifierBeginsAtTheNewestEvent", func(s *scene) {
			s.appended(2, event("1"), event("2"))
			s.putNotifier(notifier("a"), true)
			s.appended(1, event("3"))
			s.want("served up to", s.notifiers()[0].Served, store.Progress{Delivered: 2})
			s.advance("a", 2, store.Progress{Delivered: 3}, true)
			s.ok(s.DeleteNotifier(s.ctx, "a"))
			s.appended(1, event("4"))
			s.putNotifier(notifier("a"), true)
			s.want("one that comes again is served up to", s.notifiers()[0].Served, store.Progress{
				Delivered: 4,
			})
		}},
		{"OfTwoThatServeFromTheSamePlaceOneMovesTheNotifier", func(s *scene) {
			s.appended(3, event("1"), event("2"), event("3"))
			s.putNotifier(notifier("a"), true)
			s.advance("a", 2, store.Progress{Delivered: 9}, false)
			trouble := store.Progress{
				Delivered: 3, Failing: s.clock.Micros(), Told: true, Trouble: "no ☃",
			}
			s.advance("a", 3, trouble, true)
			s.want("progress", s.notifiers()[0].Served, trouble)
			s.advance("a", 3, store.Progress{Delivered: 5}, true)
			s.advance("a", 3, store.Progress{Delivered: 4}, false)
			s.want("progress", s.notifiers()[0].Served, store.Progress{Delivered: 5})
			s.advance("nobody", 0, store.Progress{Delivered: 4}, false)
			s.race(func(i int) (bool, error) {
				return s.Advance(s.ctx, "a", 5, store.Progress{Delivered: 6 + int64(i)})
			})
		}},
		{"AChangedNotifierGoesOnWhereItWas", func(s *scene) {
			s.putNotifier(notifier("a"), true)
			s.appended(2, event("1"), event("2"))
			changed := notifier("a")
			changed.On = nil
			changed.Served = store.Progress{
				Delivered: 1, Failing: s.clock.Micros(), Told: true, Trouble: "no",
			}
			s.advance("a", 0, changed.Served, true)
			s.putNotifier(changed, false)
			s.want("notifiers", s.notifiers(), []store.Notifier{changed})
		}},
	}
}

func event(key string) store.Event { return store.Event{Key: key, Kind: "test"} }

// appended appends events, of which so many must be new.
func (s *scene) appended(want int, events ...store.Event) {
	got, err := s.Append(s.ctx, events)
	s.ok(err)
	if got != want {
		s.fail("append %d events: %d are new, want %d", len(events), got, want)
	}
}

// events reads one page.
func (s *scene) events(q store.EventQuery) []store.Event {
	page, err := s.Events(s.ctx, q)
	s.ok(err)
	return page.Events
}

// keys are the seqs and keys of one page.
func (s *scene) keys(q store.EventQuery) (list []string) {
	for _, e := range s.events(q) {
		list = append(list, fmt.Sprint(e.Seq, " ", e.Key))
	}
	return list
}

// showGapless lets some append at the same time, each the same events as the others and some of its
// own, while another reads.
func (s *scene) showGapless(writers, each int) {
	var group sync.WaitGroup
	errs := make(chan error, writers)
	for w := range writers {
		group.Go(func() {
			for i := range each {
				if _, err := s.Append(s.ctx,
					[]store.Event{event(fmt.Sprintf("own/%d/%d", w, i)),
						event(fmt.Sprintf("shared/%d", i))}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		group.Wait()
	}()
	want := int64(writers*each + each)
	var read []int64
	for after, last := int64(0), false; ; {
		page, err := s.Events(s.ctx, store.EventQuery{After: after, Limit: 5})
		if err != nil {
			s.fail("%v", err)
		}
		for _, e := range page.Events {
			read = append(read, e.Seq)
		}
		after = page.Next
		if len(page.Events) > 0 {
			continue
		}
		if last {
			break
		}
		select {
		case <-written:
			last = true // what there is now is all that there will be
		default:
		}
	}
	close(errs)
	for err := range errs {
		s.fail("%v", err)
	}
	for i, seq := range read {
		if seq != int64(i)+1 {
			s.fail("a reader saw seq %d where %d should stand", seq, i+1)
		}
	}
	if int64(len(read)) != want {
		s.fail("a reader saw %d events of %d", len(read), want)
	}
}

// race lets four do the same at once, which must work for one of them.
func (s *scene) race(do func(i int) (bool, error)) {
	var group sync.WaitGroup
	var won [4]bool
	var errs [4]error
	for i := range won {
		group.Go(func() { won[i], errs[i] = do(i) })
	}
	group.Wait()
	winners := 0
	for i := range won {
		s.ok(errs[i])
		if won[i] {
			winners++
		}
	}
	s.want("winners", winners, 1)
}

func notifier(name string) store.Notifier {
	return store.Notifier{
		Name: name, Kind: "webhook", On: []string{"node.*", "store.full"}, Subjects: []string{"☃*"},
		Format: "slack", Template: `{"a":"{{.Text}}"}`,
		Secrets: store.Secrets{URL: "https://x/y?z", Key: "whsec_☃"},
	}
}

func (s *scene) putNotifier(n store.Notifier, created bool) {
	served := store.Progress{}
	got, err := s.ChangeNotifier(s.ctx, n.Name, func(is *store.Notifier, _ bool) error {
		served, *is = is.Served, n
		return nil
	})
	s.ok(err)
	n.Served = served
	s.want("answer to a change of notifier "+n.Name, got, store.Changed[store.Notifier]{
		Is: n, Created: created,
	})
}

func (s *scene) notifiers() []store.Notifier {
	list, err := s.Notifiers(s.ctx)
	s.ok(err)
	return list
}

func (s *scene) advance(name string, from int64, to store.Progress, want bool) {
	ok, err := s.Advance(s.ctx, name, from, to)
	s.ok(err)
	s.want(fmt.Sprintf("advance %s from %d", name, from), ok, want)
}
