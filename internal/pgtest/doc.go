// Package pgtest starts throwaway PostgreSQL clusters for tests: real servers, made by initdb in a
// temporary folder, that listen on a free port of the loopback address and end with the test, or
// with the test binary.
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		dsn := pgtest.Shared(t).Database(t) // a database of its own, on the server that all tests of this binary share
//
//		c := pgtest.Start(t, pgtest.Config{Durable: true}) // a server of its own, to be killed, paused, restarted
//		c.Kill9(t)
//		c.Restart(t)
//	}
//
// The programs initdb and postgres are looked for on PATH, in /usr/local/bin and in
// /usr/lib/postgresql/*/bin. When there are none, a test that needs them is skipped and says what
// to install, unless the environment says otherwise:
//
//	ROTA_POSTGRES=must  it fails: make check and CI pass over nothing
//	ROTA_POSTGRES=skip  it is skipped though there is PostgreSQL: make quick
//
// PostgreSQL refuses to run as root, so a test binary that does starts it as the user postgres.
package pgtest
