package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/story"
)

func secretOf(t *testing.T, path string) seal.Secret {
	t.Helper()
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Secret()
}

func TestSecretHas256BitsAndStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.db")
	first := secretOf(t, path)
	if first.Key == ([32]byte{}) || first.Old != 0 || first.Since != 0 {
		t.Errorf("a new store has %+v", first)
	}
	if again := secretOf(t, path); again != first {
		t.Error("opened again it has another")
	}
	if other := secretOf(t, filepath.Join(t.TempDir(), "rota.db")); other.Key == first.Key {
		t.Error("another store has the same")
	}
}

func TestStoreOfAnEarlierVersionGetsASecret(t *testing.T) {
	story.Whole(t)
	path := filepath.Join(t.TempDir(), "rota.db")
	was := secretOf(t, path)
	before := time.Now().UnixMicro()
	down(t, path, 4)
	is := secretOf(t, path)
	if is.Key == ([32]byte{}) || is.Key == was.Key || is.Old == 0 || is.Since < before ||
		is.Since > time.Now().UnixMicro() {
		t.Errorf("it has %+v", is)
	}
	if again := secretOf(t, path); again != is {
		t.Error("opened again it has another")
	}
}
