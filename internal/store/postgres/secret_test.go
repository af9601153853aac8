package postgres

import (
	"testing"
	"time"

	"github.com/rotahq/rota/internal/pgtest"
)

func TestSecretHas256BitsAndIsTheSameAtEveryNode(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	a, b := open(t, Config{DSN: dsn}), open(t, Config{DSN: dsn})
	if a.Secret().Key == ([32]byte{}) || a.Secret().Old != 0 || a.Secret() != b.Secret() {
		t.Errorf("%+v and %+v", a.Secret(), b.Secret())
	}
	if key := a.PeerKey(); len(key) != 32 || [32]byte(key) == a.Secret().Key {
		t.Errorf("nodes know each other by %d bytes", len(key))
	}
}

func TestStoreOfAnEarlierVersionGetsASecret(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	was := open(t, Config{DSN: dsn}).Secret()
	runSQL(t, dsn,
		`ALTER TABLE rota.store DROP COLUMN secret, DROP COLUMN secret_since; ALTER TABLE rota.queue DROP COLUMN final_queue; DROP FUNCTION rota.finish, rota.kept, rota.seal, rota.digits; DELETE FROM rota.version WHERE version_id >= 9`)
	before := time.Now()
	is := open(t, Config{DSN: dsn}).Secret()
	hour := time.UnixMicro(is.Since).Sub(before) // nodes of the earlier version go on for a while
	if is.Key == ([32]byte{}) || is.Key == was.Key || is.Old == 0 || hour < 50*time.Minute ||
		hour > 70*time.Minute {
		t.Errorf("it has %+v", is)
	}
	if again := open(t, Config{DSN: dsn}).Secret(); again != is {
		t.Error("opened again it has another")
	}
}
