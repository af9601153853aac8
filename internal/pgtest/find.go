//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// errMissing says what to do when there is no PostgreSQL.
var errMissing = errors.New("no PostgreSQL: initdb and postgres are neither on PATH nor in /usr/local/bin nor in /usr/lib/postgresql/*/bin; " +
	"on Debian and Ubuntu: apt-get install postgresql")

// wanted skips a test that there is no PostgreSQL for, or that nobody wants to run now.
func wanted(t testing.TB) {
	t.Helper()
	_, err := programs()
	if reason := skipping(os.Getenv("ROTA_POSTGRES"), err); reason != "" {
		t.Skip(reason)
	}
}

// skipping says why tests that need PostgreSQL are skipped; "" = they are not. missing says that it
// is not installed.
func skipping(policy string, missing error) (reason string) {
	switch {
	case policy == "skip":
		return "ROTA_POSTGRES=skip: without the tests that need PostgreSQL"
	case policy != "must" && missing != nil:
		return missing.Error()
	}
	return ""
}

// programs is the folder that has both initdb and postgres.
func programs() (string, error) {
	var dirs []string
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	dirs = append(dirs, "/usr/local/bin")
	packaged, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	// the newest first
	slices.SortFunc(packaged, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range append(dirs, packaged...) {
		if isFile(filepath.Join(dir, "initdb")) && isFile(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", errMissing
}

// version is the number in /usr/lib/postgresql/N/bin.
func version(dir string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	if err != nil {
		return 0
	}
	return n
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}
