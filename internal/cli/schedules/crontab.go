package schedules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/cron"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/worker"
)

// A crontab is read as cron(5) of Linux says: comments, variables that hold for the lines below
// them, five fields or a word with @, in a system's crontab a user, and a command, of which a %
// ends the line and begins its standard input.

// cronEntry is a line of a crontab that has a command.
type cronEntry struct {
	line   int
	when   string        // for package cron
	zone   string        // as CRON_TZ said above it; "" = the crontab's
	user   string        // of a system's crontab
	spread time.Duration // as RANDOM_DELAY said above it
	worker.ShellTask
}

// crontab is what a crontab says.
type crontab struct {
	entries []cronEntry
	notes   []string // what is not used of it
}

// crontabReader reads a crontab line by line.
type crontabReader struct {
	system bool
	zone   string // of lines without a CRON_TZ
	found  crontab
	wrong  []error

	// What the variables so far say.
	env    map[string]string
	shell  string
	cronTZ string
	spread time.Duration
	told   map[string]bool // what a note was made of
}

// parseCrontab reads a crontab. The error names every line that is wrong.
func parseCrontab(text, zone string, system bool) (crontab, error) {
	r := crontabReader{
		system: system, zone: zone, env: map[string]string{}, told: map[string]bool{},
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return r.found, errors.New("is not a text in UTF-8")
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := r.read(n, strings.TrimRight(line, "\r\n")); err != nil {
			r.wrong = append(r.wrong, fmt.Errorf("line %d: %w", n, err))
		}
	}
	if len(r.wrong) == 0 && len(r.found.entries) == 0 {
		r.wrong = append(r.wrong, errors.New("no line in it has a command"))
	}
	return r.found, errors.Join(r.wrong...)
}

func (r *crontabReader) read(n int, line string) error {
	line = strings.TrimLeft(line, " \t")
	if line == "" || line[0] == '#' {
		return nil
	}
	if name, value, ok := cutVariable(line); ok {
		return r.set(n, name, value)
	}
	e := cronEntry{line: n, zone: cmp.Or(r.cronTZ, r.zone), spread: r.spread}
	e.Shell, e.Env = r.shell, maps.Clone(r.env)
	fields := 5
	if line[0] == '@' {
		fields = 1
	}
	e.when, line = cutFields(line, fields)
	if r.system {
		if e.user, line = cutFields(line, 1); line == "" {
			return errors.New("a system's crontab names a user before the command")
		}
	}
	if line == "" {
		return errors.New("wants five fields and a command, or a variable as NAME=value")
	}
	if e.Command, e.Stdin = cutPercent(line); strings.TrimSpace(e.Command) == "" {
		return errors.New("has no command before the %")
	}
	if err := e.check(); err != nil {
		return err
	}
	if first, _ := cutFields(e.Command, 1); first == "root" && !r.system && !r.told[first] {
		r.told[first] = true
		r.found.notes = append(r.found.notes,
			fmt.Sprintf(
				"line %d: the command begins with root: a crontab that names users before its commands needs --system",
				n,
			))
	}
	r.found.entries = append(r.found.entries, e)
	return nil
}

// set takes a variable in.
func (r *crontabReader) set(n int, name, value string) (err error) {
	switch name {
	case "SHELL":
		r.shell = value
	case "CRON_TZ":
		if _, err := time.LoadLocation(value); err != nil || value == "" || value == "Local" {
			return fmt.Errorf("CRON_TZ: unknown time zone %.40q", value)
		}
		r.cronTZ = value
	case "RANDOM_DELAY":
		minutes, err := strconv.Atoi(value)
		if r.spread = time.Duration(minutes) * time.Minute; err != nil || minutes < 0 ||
			minutes > int(limits.MaxJitter/time.Minute) {
			return fmt.Errorf("RANDOM_DELAY: %.40q is no number of minutes up to a day", value)
		}
	case "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING":
		if value != "" && !r.told[name] {
			r.told[name] = true
			r.found.notes = append(r.found.notes,
				fmt.Sprintf(
					"line %d: %s is not used: what a command prints stands in its task's log", n,
					name,
				))
		}
	default:
		r.env[name] = value
	}
	return nil
}

// cutVariable reads NAME = value, each perhaps in quotes. What cron takes for a variable is
// anything of which the first word is followed by =.
func cutVariable(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, "=")
	name = unquoted(strings.TrimRight(name, " \t"))
	if !ok || name == "" || strings.ContainsAny(name, " \t\"'@*") {
		return "", "", false
	}
	return name, unquoted(strings.Trim(value, " \t")), true
}

// unquoted takes a pair of quotes away.
func unquoted(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// cutFields cuts n words off, with one space between them, and the space behind.
func cutFields(line string, n int) (fields, rest string) {
	var words []string
	for rest = line; len(words) < n && rest != ""; {
		end := strings.IndexAny(rest, " \t")
		if end < 0 {
			end = len(rest)
		}
		words = append(words, rest[:end])
		rest = strings.TrimLeft(rest[end:], " \t")
	}
	return strings.Join(words, " "), rest
}

// cutPercent ends a command at the first % without a backslash; what is behind it is the standard
// input, where each further one begins a line.
func cutPercent(line string) (command, stdin string) {
	var parts [2]strings.Builder
	into := 0
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && i+1 < len(line) && line[i+1] == '%':
			parts[into].WriteByte('%')
			i++
		case line[i] != '%':
			parts[into].WriteByte(line[i])
		case into == 0:
			into = 1
		default:
			parts[1].WriteByte('\n')
		}
	}
	if stdin = parts[1].String(); stdin != "" && !strings.HasSuffix(stdin, "\n") {
		stdin += "\n"
	}
	return parts[0].String(), stdin
}

// check refuses what package cron does not take, or would take for something else than cron(5)
// does.
func (e *cronEntry) check() error {
	zone, err := time.LoadLocation(e.zone)
	if err != nil {
		return fmt.Errorf("unknown time zone %.40q", e.zone)
	}
	if _, err := cron.Parse(e.when, cron.Options{Zone: zone}); err != nil {
		return err
	}
	fields := strings.Fields(e.when)
	if len(fields) == 5 && bothDays(fields[2], fields[4]) {
		return fmt.Errorf(
			"day of month %s and day of week %s: cron wants a day that is both, rota one that is either; say it in another way",
			fields[2], fields[4],
		)
	}
	if len(e.context()) > limits.MaxScheduleContext {
		return fmt.Errorf("the command and its variables are longer than %s",
			term.Bytes(limits.MaxScheduleContext))
	}
	if e.user != "" && !limits.ValidName(e.user) {
		return fmt.Errorf("user %.40q can't be part of a queue's name, which %s", e.user,
			limits.NameRule)
	}
	return nil
}

// bothDays tells whether cron(5) would want both fields of days to match where package cron wants
// either: when one of them begins with * but is more than that.
func bothDays(ofMonth, ofWeek string) bool {
	starred := strings.HasPrefix(ofMonth, "*") || strings.HasPrefix(ofWeek, "*")
	return starred && ofMonth != "*" && ofWeek != "*"
}

// context is what the schedule's tasks carry.
func (e *cronEntry) context() json.RawMessage {
	b, err := json.Marshal(e.ShellTask)
	if err != nil {
		panic(fmt.Errorf("encode %T: %w", e.ShellTask, err)) // strings always encode
	}
	return b
}

// name is a schedule's: the program, and a hash of all that is run, so that a crontab that is
// imported again finds its own.
func (e *cronEntry) name(prefix string) string {
	hash := sha256.Sum256(append([]byte(e.user+"\n"), e.context()...))
	return prefix + program(e.Command) + "-" + hex.EncodeToString(hash[:4])
}

// program is the name of the program that a command line runs, as far as it can stand in a
// schedule's name.
func program(command string) string {
	word := "command"
	for _, w := range strings.Fields(command) {
		if !strings.Contains(w, "=") { // variables in front
			word = path.Base(w)
			break
		}
	}
	word = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			return c
		case c >= 'A' && c <= 'Z':
			return c - 'A' + 'a'
		}
		return -1
	}, word)
	return cmp.Or(strings.Trim(word[:min(len(word), 40)], "._-"), "command")
}
