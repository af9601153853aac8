package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/rows"
)

// leaseClaims is what holds for leases.
func leaseClaims() []claim {
	return []claim{
		{"LeaseIsHeldByOneAtATime", func(s *scene) {
			first, err := s.Acquire(s.ctx, "chore/x", "a", time.Minute, []byte(`{"v":1}`))
			s.ok(err)
			s.want("lease", first, rows.Lease{Name: "chore/x", Holder: "a", Token: first.Token,
				Until: s.clock.Micros() + time.Minute.Microseconds(), Value: []byte(`{"v":1}`)})
			_, err = s.Acquire(s.ctx, "chore/x", "b", time.Minute, nil)
			s.wantErr("acquire of another's lease", err, rows.ErrConflict)
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
			got, err := s.Renew(s.ctx, []rows.Lease{y, {Name: "worker/z", Token: 1}}, time.Minute)
			s.ok(err)
			until := s.clock.Micros() + time.Minute.Microseconds()
			s.want("renewed", got, []rows.Lease{{Name: "worker/y", Holder: "a", Token: y.Token, Until: until, Value: []byte(`3`)}})
			got, err = s.Renew(s.ctx, []rows.Lease{wrong}, time.Minute)
			s.ok(err)
			s.want("renewed with a wrong token", len(got), 0)
			got, err = s.Renew(s.ctx, []rows.Lease{x}, time.Minute)
			s.ok(err)
			s.want("renewed without a value", got, []rows.Lease{{Name: "worker/x", Holder: "a", Token: x.Token, Until: until, Value: []byte(`1`)}})
		}},
		{"EndNeedsTheToken", func(s *scene) {
			l, err := s.Acquire(s.ctx, "chore/x", "a", time.Minute, nil)
			s.ok(err)
			_ = s.End(s.ctx, "chore/x", l.Token+1, true) // it may say so or not, but it changes nothing
			_, err = s.Acquire(s.ctx, "chore/x", "b", time.Minute, nil)
			s.wantErr("acquire after an end with a wrong token", err, rows.ErrConflict)
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
			wants := func(names ...string) (list []rows.Lease) {
				for _, name := range names {
					list = append(list, rows.Lease{Name: "claim/" + name, Value: []byte(`"` + name + `"`)})
				}
				return list
			}
			acquire := func(holder string, judge int64, names ...string) (got []string) {
				list, err := s.AcquireAll(s.ctx, holder, wants(names...), time.Minute, judge)
				s.ok(err)
				s.want("time", list.Now, s.clock.Micros())
				for _, l := range list.Leases {
					got = append(got, strings.TrimPrefix(l.Name, "claim/"))
					s.want("granted", l, rows.Lease{Name: l.Name, Holder: holder, Token: l.Token,
						Until: s.clock.Micros() + time.Minute.Microseconds(), Value: []byte(`"` + got[len(got)-1] + `"`)})
				}
				slices.Sort(got)
				return got
			}
			s.want("without rows", acquire("a", 0, "1", "2", "3"), []string{"1", "2", "3"})
			s.want("another's", acquire("b", s.clock.Micros(), "1", "4"), []string{"4"})
			s.clock.Advance(2 * time.Minute)
			s.want("the holder's own, expired", acquire("a", 0, "1"), []string(nil))
			s.want("the holder's own, expired, with judge", acquire("a", s.clock.Micros(), "1"), []string{"1"})
			s.want("the holder's own, with judge", acquire("a", s.clock.Micros(), "1"), []string{"1"})
			s.want("another's, expired", acquire("b", 0, "1", "2", "3"), []string(nil))
			s.want("another's, expired, when judging was over", acquire("b", s.clock.Micros()-1, "1", "2", "3"), []string(nil))
			s.want("another's, expired, with judge", acquire("b", s.clock.Micros(), "1", "2"), []string{"2"})
			s.clock.Advance(2 * time.Minute)
			_, err := s.Free(s.ctx, rows.Holder{Node: "x"})
			s.ok(err)
			s.want("another's, ended", acquire("c", 0, "1", "2", "3", "4"), []string{"1", "2", "3", "4"})
			s.want("none", acquire("c", 0), []string(nil))
		}},
		{"ManyLeasesAreEndedAtOnceByTheirTokens", func(s *scene) {
			for _, remove := range []bool{false, true} {
				granted, err := s.AcquireAll(s.ctx, "a", []rows.Lease{{Name: "claim/1"}, {Name: "claim/2"}, {Name: "claim/3"}}, time.Minute, 0)
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
			for name, holder := range map[string]string{"node/a": "a", "node/b": "b", "nodes": "a", "claim/x": "b", "chore/y": "b"} {
				_, err := s.Acquire(s.ctx, name, holder, time.Minute, []byte(`1`))
				s.ok(err)
			}
			list, err := s.LeasesOf(s.ctx, "")
			s.ok(err)
			s.clock.Advance(time.Hour)
			held := []rows.Lease{{Name: "node/a", Token: list[2].Token, Value: []byte(`2`)}, {Name: "node/b", Token: list[3].Token + 1}}
			got, err := s.Beat(s.ctx, held, time.Second, "node/", "claim/", "drain/")
			s.ok(err)
			a := rows.Lease{Name: "node/a", Holder: "a", Token: list[2].Token, Until: s.clock.Micros() + 1e6, Value: []byte(`2`)}
			s.want("beat", got, rows.Beat{Now: s.clock.Micros(), Kept: []rows.Lease{a}, Leases: []rows.Lease{list[1], a, list[3]}})
			got, err = s.Beat(s.ctx, nil, time.Second, "chore/")
			s.ok(err)
			s.want("beat of one who holds nothing", got, rows.Beat{Now: s.clock.Micros(), Leases: []rows.Lease{list[0]}})
		}},
		{"LeasesAreListedByNameUnderTheirPrefixOnly", func(s *scene) {
			for _, name := range []string{"worker/b", "worker/a", "node/a", "workers", "worker/%", "worker/a_c", "worker/é"} {
				_, err := s.Acquire(s.ctx, name, "h", time.Minute, nil)
				s.ok(err)
			}
			var names []string
			list, err := s.LeasesOf(s.ctx, "worker/")
			s.ok(err)
			for _, l := range list {
				names = append(names, l.Name)
			}
			s.want("names", names, []string{"worker/%", "worker/a", "worker/a_c", "worker/b", "worker/é"})
			list, err = s.LeasesOf(s.ctx, "worker/a_")
			s.ok(err)
			s.want("names that begin with worker/a_", len(list), 1)
			list, err = s.LeasesOf(s.ctx, "")
			s.ok(err)
			s.want("all", len(list), 7)
		}},
	}
}
