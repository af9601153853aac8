package assign

import (
	"reflect"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
)

func TestABeatTakesASeat(t *testing.T) {
	old := store.Seat{
		Worker: "w", Node: home, Incarnation: "2", Before: []string{"1", "0"}, Capacity: 5, Used: 3,
		Labels: map[string]string{"k": "v"}, Groups: []string{"g"},
		State: store.SeatTaken, Since: 10, Joined: 5,
	}
	moved := old
	moved.Overlap = 50
	elsewhere := store.Holder{Node: "b", Token: 7}
	with := func(change func(*store.Seat)) store.Seat {
		s := old
		change(&s)
		return s
	}
	for _, c := range []struct {
		what                string
		old                 *store.Seat
		beat                store.Seat
		at                  store.Holder
		want                store.Seat
		changed, superseded bool
	}{
		{"the first", nil,
			store.Seat{Worker: "w", Incarnation: "1", Used: 9, Before: []string{"x"}}, home,
			store.Seat{Worker: "w", Incarnation: "1", Node: home, State: store.SeatTaken, Since: 99,
				Joined: 99}, true, false},
		{"as before", &old, old, home, old, false, false},
		{"with no labels", &old, with(func(s *store.Seat) {
			s.Labels = nil
		}), home, with(func(s *store.Seat) { s.Labels = nil }), true, false},
		{"in another zone", &old, with(func(s *store.Seat) {
			s.Zone = "z"
		}), home, with(func(s *store.Seat) { s.Zone = "z" }), true, false},
		{"draining", &old, with(func(s *store.Seat) {
			s.Draining = true
		}), home, with(func(s *store.Seat) { s.Draining = true }), true, false},
		{"with another capacity", &old, with(func(s *store.Seat) {
			s.Capacity = 1
		}), home, with(func(s *store.Seat) { s.Capacity = 1 }), true, false},
		{"serving more groups", &old, with(func(s *store.Seat) {
			s.Groups = []string{"g", "h"}
		}), home, with(func(s *store.Seat) { s.Groups = []string{"g", "h"} }), true, false},
		{"at another node", &old, old, elsewhere, with(func(s *store.Seat) {
			s.Node, s.Overlap = elsewhere, 1099
		}), true, false},
		{"at the next start of its node", &old, old, store.Holder{Node: home.Node, Token: 8},
			with(func(s *store.Seat) { s.Node.Token = 8 }), true, false},
		{"as before, and it has come from elsewhere", &moved, old, home, moved, false, false},
		{"of the next incarnation", &old, with(func(s *store.Seat) { s.Incarnation = "3" }), home,
			with(func(s *store.Seat) {
				s.Incarnation, s.Before, s.Joined = "3", []string{"2", "1", "0"}, 99
			}), true, false},
		{"of an earlier one", &old, with(func(s *store.Seat) {
			s.Incarnation = "0"
		}), elsewhere, old, false, true},
	} {
		got, changed, superseded := Beat(c.old, c.beat, c.at, 99, time.Millisecond)
		if !reflect.DeepEqual(got, c.want) || changed != c.changed || superseded != c.superseded {
			t.Errorf("a beat %s: got %+v changed %v superseded %v, want %+v", c.what, got, changed,
				superseded, c.want)
		}
	}
}

func TestAWorkerThatWasAwayIsBackSince(t *testing.T) {
	for _, state := range []store.SeatState{store.SeatSilent, store.SeatLeft, store.SeatOrphan} {
		old := store.Seat{Worker: "w", Incarnation: "1", State: state, Since: 10, Joined: 5}
		got, changed, _ := Beat(&old, old, home, 99, 0)
		if !changed || got.State != store.SeatTaken || got.Since != 99 || got.Joined != 5 {
			t.Errorf("%s: got %+v", state, got)
		}
	}
}

func TestOnlyItsNodeSendsAWorkerAway(t *testing.T) {
	old := store.Seat{Worker: "w", Node: home, Incarnation: "2", State: store.SeatTaken, Since: 10}
	for _, c := range []struct {
		word    store.Seat
		at      store.Holder
		changed bool
	}{
		{store.Seat{Incarnation: "2", State: store.SeatSilent}, home, true},
		{store.Seat{Incarnation: "2", State: store.SeatLeft}, home, true},
		{store.Seat{Incarnation: "2", State: store.SeatTaken}, home, false},
		{store.Seat{Incarnation: "1", State: store.SeatSilent}, home, false},
		{store.Seat{Incarnation: "2", State: store.SeatSilent}, store.Holder{Node: "a", Token: 2},
			false},
	} {
		want := old
		if c.changed {
			want.State, want.Since = c.word.State, 99
		}
		if got, changed := Leave(&old, c.word, c.at, 99); changed != c.changed ||
			!reflect.DeepEqual(got, want) {
			t.Errorf("%+v at %v: got %+v", c.word, c.at, got)
		}
	}
}

func TestACallFindsWhatItHasChangedOfASeat(t *testing.T) {
	seat := func(incarnation string, at store.Holder) store.Seat {
		return store.Seat{
			Worker: "w", Incarnation: incarnation, Node: at, State: store.SeatTaken, Since: 5,
			Joined: 5,
		}
	}
	beat := store.Seat{Worker: "w", Incarnation: "2"}
	left := store.Seat{Worker: "w", Incarnation: "2", State: store.SeatLeft}
	elsewhere, before, same := seat("2", store.Holder{Node: "b", Token: 7}), seat("1", home),
		seat("2", home)
	later := seat("3", home)
	later.Before = []string{"2"}
	for what, c := range map[string]struct {
		old        *store.Seat
		want       store.SeatState // "" = nothing is changed
		joined     int64
		superseded int
	}{
		"nowhere":                    {nil, store.SeatLeft, 99, 0},
		"at another node":            {&elsewhere, store.SeatLeft, 5, 0},
		"here":                       {&same, store.SeatLeft, 5, 0},
		"here as one before":         {&before, store.SeatLeft, 99, 0},
		"here as one that came then": {&later, "", 0, 1},
	} {
		known := map[string]*store.Seat{}
		if c.old != nil {
			known["w"] = c.old
		}
		request := &store.SeatRequest{
			Holder: home, Taken: []store.Seat{beat}, Away: []store.Seat{left, {Worker: "none"}},
		}
		changed, superseded := Seats(request, known, 99)
		if len(superseded) != c.superseded || (len(changed) == 1) != (c.want != "") {
			t.Errorf("%s: changed %+v, superseded %v", what, changed, superseded)
			continue
		}
		if c.want != "" &&
			(changed[0].State != c.want || changed[0].Node != home ||
				changed[0].Joined != c.joined) {
			t.Errorf("%s: became %+v", what, *changed[0])
		}
	}
}
