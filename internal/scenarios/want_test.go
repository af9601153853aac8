package scenarios

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// want is what is to be seen of a command; doc.go has the language.
type want struct {
	whole    *string
	matches  []match
	fields   [][2]string // path and value
	at       string      // where the rows are; "" = items, or the table
	columns  []string
	rows     [][]string
	moreRows bool
}

type match struct {
	*regexp.Regexp
	not bool
}

var gap = regexp.MustCompile(` {2,}`)

func parseWant(text string) (w want, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		path, value, isField := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "= "):
			whole := line[2:]
			w.whole = &whole
		case strings.HasPrefix(line, "~ "), strings.HasPrefix(line, "!~ "):
			_, expression, _ := strings.Cut(line, "~ ")
			m, err := regexp.Compile("(?m)" + expression)
			if err != nil {
				return w, err
			}
			w.matches = append(w.matches, match{m, line[0] == '!'})
		case strings.HasPrefix(line, "@ "):
			w.at = line[2:]
		case line == "…":
			w.moreRows = true
		case isField:
			w.fields = append(w.fields,
				[2]string{strings.TrimSpace(path), strings.TrimSpace(value)})
		case w.columns == nil:
			w.columns = gap.Split(line, -1)
		default:
			row := gap.Split(line, -1)
			if len(row) != len(w.columns) {
				return w, fmt.Errorf("%q has %d values for %d columns", line, len(row),
					len(w.columns))
			}
			w.rows = append(w.rows, row)
		}
	}
	return w, nil
}

// compare says what of a command's output is not as wanted.
func (w want) compare(out string) error {
	if w.whole != nil && strings.TrimSpace(out) != *w.whole {
		return fmt.Errorf("want %q", *w.whole)
	}
	for _, m := range w.matches {
		if m.MatchString(out) == m.not {
			return fmt.Errorf("want it to match %q: %t", m.String(), !m.not)
		}
	}
	if w.columns == nil && w.fields == nil {
		return nil
	}
	var document any
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.UseNumber()
	isJSON := strings.ContainsAny(firstRune(out), "{[") && decoder.Decode(&document) == nil
	for _, f := range w.fields {
		got, ok := keyed(out, f[0])
		if isJSON {
			got, ok = fieldOf(document, f[0])
		}
		if !ok || !equal(f[1], got) {
			return fmt.Errorf("%s is %q, want %s", f[0], got, f[1])
		}
	}
	if w.columns == nil {
		return nil
	}
	rows, err := tableOf(out, w.columns)
	if isJSON {
		rows, err = rowsOf(document, w.at, w.columns)
	}
	if err != nil {
		return err
	}
	return w.compareRows(rows)
}

func firstRune(s string) string {
	s = strings.TrimSpace(s)
	return s[:min(1, len(s))]
}

func (w want) compareRows(rows [][]string) error {
	if !w.moreRows && len(rows) != len(w.rows) {
		return fmt.Errorf("there are %d rows, want %d: %q", len(rows), len(w.rows), rows)
	}
	for i, wanted := range w.rows {
		is := func(row []string) bool { return slices.EqualFunc(wanted, row, equal) }
		if !w.moreRows && !is(rows[i]) {
			return fmt.Errorf("row %d is %q, want %q", i, rows[i], wanted)
		}
		if w.moreRows && !slices.ContainsFunc(rows, is) {
			return fmt.Errorf("no row is %q: %q", wanted, rows)
		}
	}
	return nil
}

// equal tells whether a value is the one that is wanted.
func equal(wanted, got string) bool {
	if wanted == "*" {
		return true
	}
	if len(wanted) > 1 && wanted[0] == '/' && strings.HasSuffix(wanted, "/") {
		ok, err := regexp.MatchString("^(?:"+wanted[1:len(wanted)-1]+")$", got)
		return ok && err == nil
	}
	for _, op := range []string{"<=", ">=", "<", ">"} {
		number, is := strings.CutPrefix(wanted, op+" ")
		if !is {
			continue
		}
		a, err := strconv.ParseFloat(got, 64)
		b, err2 := strconv.ParseFloat(number, 64)
		return errors.Join(err, err2) == nil &&
			(a < b && op[0] == '<' || a > b && op[0] == '>' || a == b && len(op) == 2)
	}
	return wanted == got
}

// keyed is the value in a line "key  value".
func keyed(out, key string) (value string, ok bool) {
	for line := range strings.Lines(out) {
		if name, rest, _ := strings.Cut(strings.TrimSpace(line), " "); name == key {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// fieldOf is the value at a path of a JSON document; a step is a field's name, a number, # for how
// many there are, or FIELD=VALUE for the first of a list that has that.
func fieldOf(v any, path string) (string, bool) {
	v, ok := walk(v, path)
	return valueOf(v), ok
}

func walk(v any, path string) (any, bool) {
	for step := range strings.SplitSeq(path, ".") {
		name, value, chooses := strings.Cut(step, "=")
		index, err := strconv.Atoi(step)
		switch at := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = at[step]; !ok {
				return nil, false
			}
		case []any:
			i := slices.IndexFunc(at, func(item any) bool {
				got, ok := fieldOf(item, name)
				return ok && got == value
			})
			switch {
			case step == "#":
				v = json.Number(strconv.Itoa(len(at)))
			case err == nil && index < len(at):
				v = at[index]
			case chooses && i >= 0:
				v = at[i]
			default:
				return nil, false
			}
		default:
			return nil, false
		}
	}
	return v, true
}

func valueOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		if v == "" {
			return "-"
		}
		return v
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}

func rowsOf(document any, at string, columns []string) ([][]string, error) {
	items, ok := document, true
	if _, list := document.([]any); !list || at != "" {
		if at == "" {
			at = "items"
		}
		items, ok = walk(document, at)
	}
	list, is := items.([]any)
	if !ok || !is {
		return nil, fmt.Errorf("there is no list at %q", at)
	}
	rows := make([][]string, len(list))
	for i, item := range list {
		for _, c := range columns {
			value, ok := fieldOf(item, c)
			if !ok {
				value = "-"
			}
			rows[i] = append(rows[i], value)
		}
	}
	return rows, nil
}

// tableOf are the columns of the first table in a text that has them all.
func tableOf(out string, columns []string) (rows [][]string, err error) {
	var heads []cell
	for line := range strings.Lines(out) {
		cells := cellsOf(strings.TrimRight(line, "\n"))
		if heads == nil {
			if containsAll(cells, columns) {
				heads = cells
			}
			continue
		}
		if len(cells) == 0 {
			break
		}
		row := slices.Repeat([]string{"-"}, len(columns))
		for _, c := range cells {
			if i := slices.IndexFunc(heads, c.under); i >= 0 {
				if at := slices.Index(columns, heads[i].text); at >= 0 {
					row[at] = c.text
				}
			}
		}
		rows = append(rows, row)
	}
	if heads == nil {
		return nil, fmt.Errorf("no table has the columns %q", columns)
	}
	return rows, nil
}

// cell is a text between two gaps of a line, and the columns of the screen from which and up to
// which it goes.
type cell struct {
	text     string
	from, to int
}

func (c cell) under(head cell) bool { return c.from < head.to && head.from < c.to }

func cellsOf(line string) (cells []cell) {
	at := 0
	for _, span := range append(gap.FindAllStringIndex(line, -1), []int{len(line), len(line)}) {
		if text := line[at:span[0]]; text != "" {
			from := ansi.StringWidth(line[:at])
			cells = append(cells, cell{text, from, from + ansi.StringWidth(text)})
		}
		at = span[1]
	}
	return cells
}

func containsAll(cells []cell, columns []string) bool {
	return !slices.ContainsFunc(columns, func(column string) bool {
		return !slices.ContainsFunc(cells, func(c cell) bool { return c.text == column })
	})
}

func TestWantedIsCompared(t *testing.T) {
	const table = "jobs  3\n\nJOB       N  REASON\n中文      1  no room\nlong job  20\n\nJOB\nx\n"
	const list = `{"items":[{"n":"a","c":{"cap":3}},{"n":"b"}],"sum":2.50}`
	for _, c := range []struct {
		out, want string
		ok        bool
	}{
		{table, "JOB  N  REASON\n中文  1  no room\nlong job  20  -", true},
		{table, "JOB  N\nlong job  20\n中文  1", false},
		{table, "JOB  N\nlong job  20\n…", true},
		{table, "JOB  N\nlong job  21\n…", false},
		{table, "JOB  N\n*  < 2\n/l.*/  >= 20", true},
		{table, "JOB  N\n中文  1", false},
		{table, "JOB  M\n…", false},
		{table, "jobs = 3\n~ ^x$\n!~ ^y$", true},
		{table, "jobs = 4", false}, {table, "!~ ^x$", false},
		{list, "n  c.cap\na  3\nb  -", true},
		{list, "@ items\nn\nb\n…", true},
		{list, "sum = 2.50\nitems.# = 2\nitems.n=a.c.cap = 3\nitems.1.n = b", true},
		{list, "items.n=c.c.cap = 3", false},
		{list, "items.2.n = b", false},
		{"a b\n", "= a b", true}, {"a b\n", "= a", false},
	} {
		w, err := parseWant(c.want)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.compare(c.out); (err == nil) != c.ok {
			t.Errorf("%q of %q: %v", c.want, c.out, err)
		}
	}
}
