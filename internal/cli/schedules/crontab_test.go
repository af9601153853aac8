package schedules

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/cron"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

func TestCrontabIsReadAsItsManualSays(t *testing.T) {
	const text = `# what runs here
SHELL=/bin/bash
 PATH = /usr/bin:/bin
MAILTO="ann@example.org"
GREETING = " hello "

30 2 * * 1-5   /opt/backup.sh --all >/dev/null 2>&1   # no comment
	*/5	*  *  *  *	cat%first%second \% line%
CRON_TZ=Asia/Tokyo
RANDOM_DELAY=15
@daily date +\%F
CRON_TZ=UTC
GREETING=''
0 0 1 jan sun FOO=bar prog = x
* * * * * wc%
`
	got, err := parseCrontab(text, "Europe/Berlin", false)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PATH": "/usr/bin:/bin", "GREETING": " hello "}
	later := map[string]string{"PATH": "/usr/bin:/bin", "GREETING": ""}
	line := func(n int, when, zone string, spread time.Duration, env map[string]string, command,
		stdin string) cronEntry {
		return cronEntry{
			line: n, when: when, zone: zone, spread: spread, ShellTask: worker.ShellTask{
				Command: command, Shell: "/bin/bash", Env: env, Stdin: stdin,
			},
		}
	}
	const delay = 15 * time.Minute
	want := crontab{
		entries: []cronEntry{
			line(7, "30 2 * * 1-5", "Europe/Berlin", 0, env,
				"/opt/backup.sh --all >/dev/null 2>&1   # no comment", ""),
			line(8, "*/5 * * * *", "Europe/Berlin", 0, env, "cat", "first\nsecond % line\n"),
			line(11, "@daily", "Asia/Tokyo", delay, env, "date +%F", ""),
			line(14, "0 0 1 jan sun", "UTC", delay, later, "FOO=bar prog = x", ""),
			line(15, "* * * * *", "UTC", delay, later, "wc", ""),
		},
		notes: []string{
			"line 4: MAILTO is not used: what a command prints stands in its task's log",
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(crontab{}, cronEntry{})); diff != "" {
		t.Error(diff)
	}
}

func TestCrontabOfASystemNamesUsers(t *testing.T) {
	got, err := parseCrontab(
		"17 * * * * root\tcd / && run-parts /etc/cron.hourly\n@weekly www-data  x\n", "UTC", true,
	)
	if err != nil || len(got.entries) != 2 || got.entries[0].user != "root" ||
		got.entries[0].Command != "cd / && run-parts /etc/cron.hourly" ||
		got.entries[1].user != "www-data" || got.entries[1].Command != "x" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestEveryWrongLineOfACrontabIsNamed(t *testing.T) {
	const text = `@reboot /opt/start
* * * * * ok
* * * *
61 * * * * x
0 0 */2 * mon x
0 0 1 * */2 x
CRON_TZ=Mars/Phobos
RANDOM_DELAY=soon
RANDOM_DELAY=1441
* * * * * %input only
@every 5m x
just words
0 0 31 feb * x
`
	_, err := parseCrontab(text, "UTC", false)
	if err == nil {
		t.Fatal("it was taken")
	}
	got := strings.Split(err.Error(), "\n")
	for i, want := range []string{
		"line 1: .*no reboot", "line 3: wants five fields and a command", "line 4: .*minute",
		"line 5: .*both", "line 6: .*both",
		"line 7: .*Mars", "line 8: .*soon", "line 9: .*1441", "line 10: .*before the %",
		"line 11: .*@every", "line 12: ", "line 13: .*never due",
	} {
		number, words, _ := strings.Cut(want, ".*")
		if i >= len(got) || !strings.HasPrefix(got[i], number) || !strings.Contains(got[i], words) {
			t.Fatalf("fault %d is not %q: %s", i, want, err)
		}
	}
	for text, want := range map[string]string{
		"# nothing\n": "no line in it has a command", "* * * * * \xff\n": "UTF-8",
		"* * * * * a\x00b\n": "UTF-8", "": "no line",
		"* * * * * " + strings.Repeat("x", limits.MaxScheduleContext): "longer than",
	} {
		if _, err := parseCrontab(text, "UTC", false); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if _, err := parseCrontab(
		"* * * * * root\n", "UTC", true,
	); err == nil || !strings.Contains(err.Error(), "line 1: a system's crontab names a user") {
		t.Error(err)
	}
	if _, err := parseCrontab(
		"* * * * * Ann! x\n", "UTC", true,
	); err == nil || !strings.Contains(err.Error(), `user "Ann!"`) {
		t.Error(err)
	}
}

func TestSchedulesOfACrontabKeepTheirNamesWhenItsTimesChange(t *testing.T) {
	names := func(text string, system bool) []string {
		table, err := parseCrontab(text, "UTC", system)
		if err != nil {
			t.Fatal(err)
		}
		f := importFlags{queue: "crontab", prefix: "crontab-", attempts: 1, system: system}
		changes, err := f.schedules(&table)
		if err != nil {
			t.Fatal(err)
		}
		list := make([]string, len(changes))
		for i, n := range changes {
			if list[i] = n.Name; !strings.HasPrefix(n.Name, "crontab-") ||
				!limits.ValidName(n.Name) {
				t.Errorf("schedule %q", n.Name)
			}
		}
		return list
	}
	first := names(
		"0 3 * * * /opt/Backup.sh -a\n* * * * * A=1 /opt/Backup.sh -b\n0 4 * * * /opt/Backup.sh -a\n",
		false,
	)
	if !strings.HasPrefix(first[0], "crontab-backup.sh-") || first[0] == first[1] ||
		first[2] != first[0]+"-2" {
		t.Errorf("names %v", first)
	}
	again := names("* * * * * A=1 /opt/Backup.sh -b\n# new\n30 5 * * 1 /opt/Backup.sh -a\n", false)
	if again[0] != first[1] || again[1] != first[0] {
		t.Errorf("names %v, before %v", again, first)
	}
	if other := names("X=1\n0 3 * * * /opt/Backup.sh -a\n", false); other[0] == first[0] {
		t.Error("another environment is another command")
	}
	users := names("* * * * * root x\n* * * * * ann x\n", true)
	if users[0] == users[1] {
		t.Error("another user's command is another")
	}
	for command, want := range map[string]string{
		"/opt/Backup.sh -a": "backup.sh", "A=1 B=2 x": "x", "((": "command", "é": "command",
		"A=1": "command", strings.Repeat("a", 99): strings.Repeat("a", 40),
		"./-x-": "x", "cd /srv && make": "cd",
	} {
		if got := program(command); got != want {
			t.Errorf("program of %q is %q, want %q", command, got, want)
		}
	}
}

func TestImportedTasksRunOnceByTheirOwnQueue(t *testing.T) {
	table, err := parseCrontab("CRON_TZ=Asia/Tokyo\nRANDOM_DELAY=3\n0 3 * * * root x\n", "UTC",
		true)
	if err != nil {
		t.Fatal(err)
	}
	f := importFlags{queue: "q", prefix: "p-", attempts: 2, system: true}
	changes, err := f.schedules(&table)
	if err != nil {
		t.Fatal(err)
	}
	want := client.ScheduleChange{
		Cron: new("0 3 * * *"), Zone: new("Asia/Tokyo"), Queue: new("q-root"),
		Context: json.RawMessage(`{"command":"x"}`), MaxAttempts: new(2),
		Jitter: &task.Jitter{Max: 3 * time.Minute},
	}
	if diff := cmp.Diff(want, changes[0].ScheduleChange); diff != "" {
		t.Error(diff)
	}
}

func TestZoneOfThisMachineIsOneThatThereIs(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	unset := func(string) (string, bool) { return "", false }
	tz := func(text string) func(string) (string, bool) {
		return func(string) (string, bool) { return text, true }
	}
	for name, x := range map[string]struct {
		env   func(string) (string, bool)
		link  string
		local *time.Location
		want  string // "" = it has no name that can be told
	}{
		"by name":               {tz("Europe/Berlin"), "", berlin, "Europe/Berlin"},
		"by name, with a colon": {tz(":Europe/Berlin"), "", berlin, "Europe/Berlin"},
		"empty":                 {tz(""), "/usr/share/zoneinfo/Asia/Tokyo", time.UTC, "UTC"},
		"not there":             {tz("Mars/Phobos"), "", time.UTC, "UTC"},
		"by a link":             {unset, "/usr/share/zoneinfo/Asia/Tokyo", berlin, "Asia/Tokyo"},
		"none":                  {unset, "", time.UTC, "UTC"},
		"by a file":             {unset, "", berlin, ""},
	} {
		got, err := zoneOfMachine(x.env, x.link, x.local)
		if got != x.want || (err != nil) != (x.want == "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// FuzzParseCrontab: what is taken can be put as it is, and be run by a worker.
func FuzzParseCrontab(f *testing.F) {
	f.Add("* * * * * x%y%%\\%z\n", false)
	f.Add("@hourly root \"a\" = b\nA='x'\n1 2 3 4 5 6 7\n", true)
	f.Add("SHELL=\n  CRON_TZ = \"UTC\" \n*/2 0 * * ? cd\n", false)
	f.Fuzz(func(t *testing.T, text string, system bool) {
		table, err := parseCrontab(text, "UTC", system)
		if err != nil {
			return
		}
		flags := importFlags{queue: "q", prefix: "p-", attempts: 1, system: system}
		changes, err := flags.schedules(&table)
		if err != nil {
			return // a user's queue that has too long a name
		}
		seen := map[string]bool{}
		for i, n := range changes {
			s := limits.DefaultSchedule(n.Name)
			s.Cron = *n.Cron
			s.Zone = *n.Zone
			s.Queue = *n.Queue
			s.Context = n.Context
			s.MaxAttempts = *n.MaxAttempts
			s.Jitter = *n.Jitter
			var e task.InvalidError
			if limits.CheckSchedule(&s, &e, "schedule"); e.Err() != nil || seen[n.Name] {
				t.Errorf("line %d: %+v: %v, seen %v", table.entries[i].line, n, &e, seen[n.Name])
			}
			seen[n.Name] = true
			if _, err := cron.Parse(s.Cron, cron.Options{Zone: ZoneOf(s.Zone)}); err != nil {
				t.Errorf("line %d: %v", table.entries[i].line, err)
			}
			var line worker.ShellTask
			if err := wire.Strict(n.Context, &line); err != nil ||
				cmp.Diff(table.entries[i].ShellTask, line) != "" && len(table.entries[i].Env) > 0 {
				t.Errorf("line %d: %s, %v", table.entries[i].line, n.Context, err)
			}
			if lines := strings.Split(text, "\n"); table.entries[i].line < 1 ||
				table.entries[i].line > len(lines) {
				t.Errorf("line %d of %d", table.entries[i].line, len(lines))
			}
		}
	})
}
