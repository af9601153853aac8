package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// leaseClaims is what holds for leases.
func leaseClaims() []claim {
	return []claim{
		{"LeaseIsHeldByOneAtATime", func(s *scene) {
			first, err := s.Acquire(s.ctx, "chore/x", "a", time.Minute, []byte(`{"v":1}`))
			s.ok(err)
			s.want("lease", first, store.Lease{Name: "chore/x", Holder: "a", Token: first.Token,
				Until: s.clock.Micros() + time.Minute.Microseconds(), Value: []byte(`{"v":1}`)})
			_, err = s.Acquire(s.ctx, "chore/x", "b", time.Minute, nil)
			s.wantErr("acquire of another's lease", err, store.ErrConflict)
			again, err := s.Acquire(s.ctx, "chore/x", "a", time.Minute, nil)
			s.ok(err)
			s.clock.Advance(time.Minute + time.Microsecond)
			other, err := s.Acquire(s.ctx, "chore/x", "b", time.Minute, nil)
			s.ok(err)
			if first.Token >= again.Token || again.Token >= other.Token {
				s.fail("tokens %d, %d, %d do not grow", first.Token, again.Token, other.Token)
			}
		}},
		{"TokensGrowThroughEndAndRemoval", func(s *scene) {
			var last int64
			for i := range 4 {
				l, err := s.Acquire(s.ctx, "worker/w", "a", time.Minute, nil)
				s.ok(err)
				if l.Token <= last {
					s.fail("token %d after %d", l.Token, last)
				}
				last = l.Token
				s.ok(s.End(s.ctx, "worker/w", l.Token, i%2 == 0))
			}
		}},
		{"RenewalExtendsWhatHasItsToken", func(s *scene) {
			x, err := s.Acquire(s.ctx, "worker/x", "a", time.Minute, []byte(`1`))
			s.ok(err)
			y, err := s.Acquire(s.ctx, "worker/y", "a", time.Minute, []byte(`2`))
			s.ok(err)
			s.clock.Advance(time.Hour)
			y.Value, x.Value = []byte(`3`), nil
			wrong := x
			wrong.Token++
			got, err := s.Renew(s.ctx, []store.Lease{y, {Name: "worker/z", Token: 1}}, time.Minute)
			s.ok(err)
			until := s.clock.Micros() + time.Minute.Microseconds()
			s.want("renewed", got,
				[]store.Lease{
					{Name: "worker/y", Holder: "a", Token: y.Token, Until: until,
						Value: []byte(`3`)},
				})
			got, err = s.Renew(s.ctx, []store.Lease{wrong}, time.Minute)
			s.ok(err)
			s.want("renewed with a wrong token", len(got), 0)
			got, err = s.Renew(s.ctx, []store.Lease{x}, time.Minute)
			s.ok(err)
			s.want("renewed without a value", got,
				[]store.Lease{
					{Name: "worker/x", Holder: "a", Token: x.Token, Until: until,
						Value: []byte(`1`)},
				})
		}},
		{"EndNeedsTheToken", func(s *scene) {
			l, err := s.Acquire(s.ctx, "chore/x", "a", time.Minute, nil)
			s.ok(err)
			// it may say so or not, but it changes nothing
			_ = s.End(s.ctx, "chore/x", l.Token+1, true)
			_, err = s.Acquire(s.ctx, "chore/x", "b", time.Minute, nil)
			s.wantErr("acquire after an end with a wrong token", err, store.ErrConflict)
			s.ok(s.End(s.ctx, "chore/x", l.Token, false))
			list, err := s.LeasesOf(s.ctx, "chore/")
			s.ok(err)
			if len(list) != 1 || list[0].Token <= l.Token || list[0].Until > s.clock.Micros() {
				s.fail("ended lease: got %+v, it was %+v", list, l)
			}
			l, err = s.Acquire(s.ctx, "chore/x", "b", time.Minute, nil)
			s.ok(err)
			s.ok(s.End(s.ctx, "chore/x", l.Token, true))
			list, err = s.LeasesOf(s.ctx, "chore/")
			s.ok(err)
			s.want("leases after the removal", len(list), 0)
		}},
		{"ManyLeasesAreAcquiredAtOnceByWhoeverMay", func(s *scene) {
			wants := func(names ...string) (list []store.Lease) {
				for _, name := range names {
					list = append(list, store.Lease{
						Name: "claim/" + name, Value: []byte(`"` + name + `"`),
					})
				}
				return list
			}
			acquire := func(holder string, judge int64, names ...string) (got []string) {
				list, err := s.AcquireAll(s.ctx, holder, wants(names...), time.Minute, judge)
				s.ok(err)
				s.want("time", list.Now, s.clock.Micros())
				for _, l := range list.Leases {
					got = append(got, strings.TrimPrefix(l.Name, "claim/"))
					s.want("granted", l, store.Lease{Name: l.Name, Holder: holder, Token: l.Token,
						Until: s.clock.Micros() + time.Minute.Microseconds(),
						Value: []byte(`"` + got[len(got)-1] + `"`)})
				}
				slices.Sort(got)
				return got
			}
			s.want("without rows", acquire("a", 0, "1", "2", "3"), []string{"1", "2", "3"})
			s.want("another's", acquire("b", s.clock.Micros(), "1", "4"), []string{"4"})
			s.clock.Advance(2 * time.Minute)
			s.want("the holder's own, expired", acquire("a", 0, "1"), []string(nil))
			s.want("the holder's own, expired, with judge", acquire("a", s.clock.Micros(), "1"),
				[]string{"1"})
			s.want("the holder's own, with judge", acquire("a", s.clock.Micros(), "1"),
				[]string{"1"})
			s.want("another's, expired", acquire("b", 0, "1", "2", "3"), []string(nil))
			s.want("another's, expired, when judging was over",
				acquire("b", s.clock.Micros()-1, "1", "2", "3"), []string(nil))
			s.want("another's, expired, with judge", acquire("b", s.clock.Micros(), "1", "2"),
				[]string{"2"})
			s.clock.Advance(2 * time.Minute)
			_, err := s.Free(s.ctx, store.Holder{Node: "x"}, math.MaxInt64)
			s.ok(err)
			s.want("another's, ended", acquire("c", 0, "1", "2", "3", "4"),
				[]string{"1", "2", "3", "4"})
			s.want("none", acquire("c", 0), []string(nil))
		}},
		{"LeaseThatStandsWithAMembershipExpiresWithIt", func(s *scene) {
			join := func(holder string) store.Lease {
				l, err := s.Acquire(s.ctx, store.MembershipOf(holder), holder, time.Minute, nil)
				s.ok(err)
				return l
			}
			claim := func(holder string, judge int64) []store.Lease {
				got, err := s.AcquireAll(s.ctx, holder,
					[]store.Lease{{Name: "claim/1", Until: store.WhileMember},
						{Name: "claim/2", Until: store.WhileMember}}, time.Second, judge)
				s.ok(err)
				for _, l := range got.Leases {
					s.want("until", l.Until, int64(store.WhileMember))
				}
				return got.Leases
			}
			now := s.clock.Micros
			s.want("given to no member", len(claim("a@1", 0)), 0)
			a, b := join("a@1"), join("b@1")
			s.want("given to another start of a node", len(claim("a@2", 0)), 0)
			mine := claim("a@1", 0)
			s.want("given to a member", len(mine), 2)
			s.want("taken from a member", len(claim("b@1", now())), 0)
			for range 3 { // one renewal is enough for all
				s.clock.Advance(50 * time.Second)
				kept, err := s.Renew(s.ctx, []store.Lease{a, b}, time.Minute)
				s.ok(err)
				s.want("renewed", len(kept), 2)
				s.want("taken from a member that renews", len(claim("b@1", now())), 0)
				_, err = s.Free(s.ctx, store.Holder{Node: "b", Token: b.Token}, math.MaxInt64)
				s.ok(err)
			}
			s.clock.Advance(50 * time.Second)
			_, err := s.Renew(s.ctx, []store.Lease{b}, time.Minute)
			s.ok(err)
			s.clock.Advance(11 * time.Second)
			s.want("given to a member that has expired", len(claim("a@1", now())), 0)
			s.want("taken from one that has expired, without judging", len(claim("b@1", 0)), 0)
			s.want("taken from one that has expired, when judging was over",
				len(claim("b@1", now()-1)), 0)
			theirs := claim("b@1", now())
			s.want("taken from one that has expired", len(theirs), 2)
			kept, err := s.Renew(s.ctx, []store.Lease{a}, time.Minute)
			s.ok(err)
			s.want("renewed though it expired", len(kept), 1)
			s.want("taken back", len(claim("a@1", now())), 0)
			s.ok(s.EndAll(s.ctx, mine, false))
			s.want("taken back after an end by old tokens", len(claim("a@1", now())), 0)
			s.ok(s.EndAll(s.ctx, theirs, false))
			s.want("taken after they were given back", len(claim("a@1", 0)), 2)
		}},
		{"WhatStoodWithAMembershipOutlivesItsEnd", func(s *scene) {
			wants := []store.Lease{
				{Name: "claim/1", Until: store.WhileMember},
				{Name: "claim/2", Until: store.WhileMember},
			}
			acquire := func(holder string) []store.Lease {
				got, err := s.AcquireAll(s.ctx, holder, wants, time.Second, s.clock.Micros())
				s.ok(err)
				return got.Leases
			}
			b, err := s.Acquire(s.ctx, "node/b", "b@1", 24*time.Hour, nil)
			s.ok(err)
			for i, end := range []func(l store.Lease) error{
				func(l store.Lease) error { return s.End(s.ctx, l.Name, l.Token, false) },
				func(l store.Lease) error { return s.End(s.ctx, l.Name, l.Token, true) },
				func(l store.Lease) error { return s.EndAll(s.ctx, []store.Lease{l}, false) },
				func(l store.Lease) error { return s.EndAll(s.ctx, []store.Lease{l}, true) },
			} {
				holder := fmt.Sprintf("a@%d", i)
				l, err := s.Acquire(s.ctx, "node/a", holder, time.Minute, nil)
				s.ok(err)
				s.want("given", len(acquire(holder)), 2)
				s.clock.Advance(20 * time.Second)
				wrong := l
				wrong.Token++
				s.ok(end(wrong))
				s.want("taken after an end by a wrong token", len(acquire("b@1")), 0)
				s.ok(end(l))
				if i == 1 { // by those who may judge, too: its holder may still believe in it
					_, err := s.Free(s.ctx, store.Holder{Node: "b", Token: b.Token}, math.MaxInt64)
					s.ok(err)
				}
				s.want("given to one that was ended", len(acquire(holder)), 0)
				s.clock.Advance(40*time.Second - time.Microsecond)
				s.want("taken before its time", len(acquire("b@1")), 0)
				s.clock.Advance(time.Microsecond)
				got := acquire("b@1")
				s.want("taken at its time", len(got), 2)
				s.ok(s.EndAll(s.ctx, got, i%2 == 0))
			}
		}},
		{"WhatStandsWithAMembershipIsEndedWithIt", func(s *scene) {
			for _, holder := range []string{"a@1", "b@1", "c@1"} {
				_, err := s.Acquire(s.ctx, store.MembershipOf(holder), holder, time.Minute, nil)
				s.ok(err)
				_, err = s.AcquireAll(s.ctx, holder,
					[]store.Lease{{Name: "claim/of-" + holder, Until: store.WhileMember}},
					time.Minute, 0)
				s.ok(err)
			}
			list, err := s.LeasesOf(s.ctx, "node/")
			s.ok(err)
			s.clock.Advance(time.Minute)
			_, err = s.Renew(s.ctx, list[2:], time.Minute) // c
			s.ok(err)
			// a has not been heard of, but it is just asking
			_, err = s.Free(s.ctx, store.Holder{Node: "a", Token: list[0].Token}, math.MaxInt64)
			s.ok(err)
			list, err = s.LeasesOf(s.ctx, "claim/")
			s.ok(err)
			var untils []int64
			for _, l := range list {
				untils = append(untils, l.Until)
			}
			s.want("claims of who asks, of the dead, of the living", untils,
				[]int64{store.WhileMember, 0, store.WhileMember})
			got, err := s.AcquireAll(s.ctx, "c@1",
				[]store.Lease{{Name: "claim/of-b@1"}, {Name: "claim/of-a@1"}}, time.Minute, 0)
			s.ok(err)
			s.want("to be had without judging", len(got.Leases), 1)
		}},
		{"ManyLeasesAreEndedAtOnceByTheirTokens", func(s *scene) {
			for _, remove := range []bool{false, true} {
				granted, err := s.AcquireAll(s.ctx, "a",
					[]store.Lease{{Name: "claim/1"}, {Name: "claim/2"}, {Name: "claim/3"}},
					time.Minute, 0)
				s.ok(err)
				tokens, got := map[string]int64{}, granted.Leases
				for i := range got {
					if tokens[got[i].Name] = got[i].Token; got[i].Name == "claim/3" {
						got[i].Token++
					}
				}
				s.ok(s.EndAll(s.ctx, got, remove))
				granted, err = s.AcquireAll(s.ctx, "b", got, time.Minute, s.clock.Micros())
				s.ok(err)
				got = granted.Leases
				s.want("leases to be had after the end", len(got), 2)
				for _, l := range got {
					if l.Name == "claim/3" || l.Token <= tokens[l.Name] {
						s.fail("got %+v, the token was %d", l, tokens[l.Name])
					}
				}
				s.ok(s.EndAll(s.ctx, got, true))
				s.ok(s.End(s.ctx, "claim/3", tokens["claim/3"], true))
			}
		}},
		{"ABeatRenewsThenLists", func(s *scene) {
			for name, holder := range map[string]string{"node/a": "a", "node/b": "b", "nodes": "a",
				"claim/x": "b", "chore/y": "b"} {
				_, err := s.Acquire(s.ctx, name, holder, time.Minute, []byte(`1`))
				s.ok(err)
			}
			list, err := s.LeasesOf(s.ctx, "")
			s.ok(err)
			s.clock.Advance(time.Hour)
			held := []store.Lease{
				{Name: "node/a", Token: list[2].Token, Value: []byte(`2`)},
				{Name: "node/b", Token: list[3].Token + 1},
			}
			got, err := s.Beat(s.ctx, held, time.Second, "node/", "claim/", "drain/")
			s.ok(err)
			a := store.Lease{
				Name: "node/a", Holder: "a", Token: list[2].Token, Until: s.clock.Micros() + 1e6,
				Value: []byte(`2`),
			}
			s.want("beat", got, store.Beat{
				Now: s.clock.Micros(), Kept: []store.Lease{a},
				Leases: []store.Lease{list[1], a, list[3]},
			})
			got, err = s.Beat(s.ctx, nil, time.Second, "chore/")
			s.ok(err)
			s.want("beat of one who holds nothing", got, store.Beat{
				Now: s.clock.Micros(), Leases: []store.Lease{list[0]},
			})
		}},
		{"LeasesAreListedByNameUnderTheirPrefixOnly", func(s *scene) {
			for _, name := range []string{"worker/b", "worker/a", "node/a", "workers", "worker/%",
				"worker/a_c", "worker/é"} {
				_, err := s.Acquire(s.ctx, name, "h", time.Minute, nil)
				s.ok(err)
			}
			var names []string
			list, err := s.LeasesOf(s.ctx, "worker/")
			s.ok(err)
			for _, l := range list {
				names = append(names, l.Name)
			}
			s.want("names", names,
				[]string{"worker/%", "worker/a", "worker/a_c", "worker/b", "worker/é"})
			list, err = s.LeasesOf(s.ctx, "worker/a_")
			s.ok(err)
			s.want("names that begin with worker/a_", len(list), 1)
			list, err = s.LeasesOf(s.ctx, "")
			s.ok(err)
			s.want("all", len(list), 7)
		}},
	}
}
