// Package pgtest starts throwaway PostgreSQL clusters for tests: real servers, made by initdb in a temporary folder, that
// listen on a free port of the loopback address and end with the test, or with the test binary.
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
// The programs initdb and postgres are looked for on PATH, in /usr/local/bin and in /usr/lib/postgresql/*/bin. When there are
// none the test fails, with the words to install them: a test that needs PostgreSQL is never passed over in silence. PostgreSQL
// refuses to run as root, so a test binary that does starts it as the user postgres.
package pgtest
