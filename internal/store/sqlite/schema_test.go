package sqlite

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write schema.sql anew")

// What new files are made by is what migrations, one after the other, make of an empty one: the
// same tables, word for word, the same rows, and the version up to which they came.
func TestSchemaIsWhatMigrationsMake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "migrated.db")
	if err := migrate(t.Context(), fileURI(path), nil); err != nil {
		t.Fatal(err)
	}
	want := dump(t, path)
	if *update {
		if err := os.WriteFile("schema.sql", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, schema); diff != "" && !*update {
		t.Errorf("go test ./internal/store/sqlite -run Schema -update writes it anew:\n%s", diff)
	}

	if *update {
		return
	}
	path = filepath.Join(t.TempDir(), "made.db")
	if err := create(path); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(schema, dump(t, path)); diff != "" {
		t.Errorf("a new file differs:\n%s", diff)
	}
}

// dump is a script that makes the tables, indexes and triggers of a file, and the rows that each
// store has from the start; its own name and secret are none of these.
func dump(t *testing.T, path string) string {
	t.Helper()
	db, err := sql.Open("sqlite", fileURI(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var b strings.Builder
	b.WriteString(`-- What a new file has. A test makes this page of the migrations, where changes begin. What a
-- migration added to a table stands behind its last column, before that one's comment.

`)
	var tables []string
	for _, x := range rowsOf(t, db, `SELECT type, name, sql FROM sqlite_schema
WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY rowid`) {
		fmt.Fprintf(&b, "%s;\n\n", x[2])
		if x[0] == "table" && x[1] != "store" {
			tables = append(tables, x[1].(string))
		}
	}
	for _, table := range tables {
		columns := rowsOf(t, db, `SELECT group_concat(name, ', '), group_concat('quote(' || name ||
')', ' || '', '' || ') FROM pragma_table_info(?) WHERE name != 'tstamp'`, table)[0]
		first, _, _ := strings.Cut(columns[0].(string), ",")
		var values []string
		for _, row := range rowsOf(t, db, fmt.Sprintf(`SELECT %s FROM "%s" ORDER BY %s`,
			columns[1], table, first)) {
			values = append(values, fmt.Sprintf("(%s)", row[0]))
		}
		if len(values) > 0 {
			fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES\n%s;\n", table, columns[0],
				strings.Join(values, ", "))
		}
	}
	return b.String()
}

func rowsOf(t *testing.T, db *sql.DB, query string, args ...any) (list [][]any) {
	t.Helper()
	rows, err := db.Query(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		list = append(list, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}
