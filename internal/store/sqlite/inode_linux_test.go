package sqlite

import (
	"strings"
	"testing"
)

// As under a bind mount: another path of the same file, which has one name.
func TestFileIsLockedUnderWhateverName(t *testing.T) {
	s := open(t, Config{})
	if _, err := onlyName(s.path); err == nil || !strings.Contains(err.Error(), "another name") {
		t.Errorf("got %v, want a refusal", err)
	}
}
