//go:build unix

package pgtest

import "testing"

func TestOnlyWhoMustHasToHavePostgreSQL(t *testing.T) {
	for _, c := range []struct {
		policy  string
		missing error
		skips   bool
	}{
		{"", nil, false}, {"must", nil, false}, {"skip", nil, true},
		{"", errMissing, true}, {"must", errMissing, false}, {"skip", errMissing, true},
	} {
		if reason := skipping(c.policy, c.missing); reason != "" != c.skips {
			t.Errorf("ROTA_POSTGRES=%q, installed %v: skips with %q", c.policy, c.missing == nil,
				reason)
		}
	}
}
