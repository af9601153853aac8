package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// configured is the app and the command after the settings for args were read.
func configured(
	t *testing.T, file string, env map[string]string, args ...string,
) (*app.App, *cobra.Command, error) {
	t.Helper()
	a := app.New(nil, new(bytes.Buffer), new(bytes.Buffer), func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	root := rootOf(a)
	if file != "" {
		path := filepath.Join(t.TempDir(), "rota.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Fatal(err)
	}
	return a, cmd, root.PersistentPreRunE(cmd, rest)
}

func TestFlagWinsOverEnvironmentWinsOverFile(t *testing.T) {
	const file = "server: http://file\nworker:\n  capacity: 3\n  queue: [a, b]\n  label: {zone: x}\n"
	env := map[string]string{"ROTA_SERVER": "http://env1,http://env2"}
	a, cmd, err := configured(t, file, env, "worker", "--server", "http://flag")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"http://flag"}, a.Servers); diff != "" {
		t.Error(diff)
	}
	if got := cmd.Flag("capacity").Value.String(); got != "3" {
		t.Errorf("capacity = %s, want the file's", got)
	}
	queues, _ := cmd.Flags().GetStringSlice("queue")
	labels, _ := cmd.Flags().GetStringSlice("label")
	if diff := cmp.Diff([]string{"a", "b", "zone=x"}, append(queues, labels...)); diff != "" {
		t.Error(diff)
	}
	if a, _, err = configured(t, file, env, "worker"); err != nil || len(a.Servers) != 2 ||
		a.Servers[1] != "http://env2" {
		t.Errorf("servers = %q (%v), want the environment's", a.Servers, err)
	}
	if a, _, err = configured(t, file, nil, "worker"); err != nil || a.Servers[0] != "http://file" {
		t.Errorf("servers = %q (%v), want the file's", a.Servers, err)
	}
	if a, _, err = configured(t, "", nil, "worker"); err != nil ||
		a.Servers[0] != "http://127.0.0.1:7700" {
		t.Errorf("servers = %q (%v), want the default", a.Servers, err)
	}
}

func TestSectionsConcernTheirCommandOnly(t *testing.T) {
	_, cmd, err := configured(t, "worker: {name: w}\nserve: {name: s}\n", nil, "serve")
	if err != nil || cmd.Flag("name").Value.String() != "s" {
		t.Errorf("name = %q (%v), want that of serve", cmd.Flag("name").Value, err)
	}
	_, cmd, err = configured(t, "queue: {timeout: 1m}\n", nil, "queue", "set")
	if err != nil || cmd.Flag("timeout").Value.String() != "1m0s" {
		t.Errorf("timeout = %q (%v), want that of the section queue", cmd.Flag("timeout").Value,
			err)
	}
}

func TestSettingsFileIsStrict(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"unknown at the top", "server: x\nsevrer: y\n",
			`:2: unknown setting "sevrer"; known at the top are fixed, output, server, token`},
		{"unknown in a section", "serve:\n  listen: a\n  listne: b\n",
			`:3: unknown setting "listne"; known in serve are`},
		{"unknown section", "bogus:\n  a: 1\n", `:2: unknown setting "a"`},
		{"everything at once", "a: 1\nb: 2\n", `:2: unknown setting "b"`},
		{"twice", "token: a\ntoken: b\n", `line 2: "token" is not a key of its own`},
		{"no value", "token:\n", "line 1: token: expected a value"},
		{"wrong type", "serve: {beat: soon}\n", `:1: beat: `},
		{"list for one value", "serve: {beat: [1s, 2s]}\n", "beat: takes one value, not a list"},
		{"a list", "- a\n", "line 1: expected keys and values"},
		{"two documents", "token: a\n---\ntoken: b\n", "more than one document"},
		{"alias", "token: &a x\nserver: *a\n", "line 2: server: expected a value or a list"},
		{"not YAML", "token: [a\n", "yaml: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := configured(t, c.file, nil, "serve")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

func TestTaskVariablesAreNoSettingsInsideATask(t *testing.T) {
	env := map[string]string{
		"ROTA_TASK": "1pq3v0m7d2k5g10", "ROTA_STAGE": "digest", "ROTA_TOKEN": "hand-out",
		"ROTA_OUTPUT": "/tmp/out",
		"ROTA_SERVER": "http://node",
	}
	a, cmd, err := configured(t, "", env, "submit", "next")
	if err != nil {
		t.Fatal(err)
	}
	if a.Token != "" || a.Format != "" || cmd.Flag("stage").Value.String() != "" {
		t.Errorf("token %q, format %q, stage %q were taken from the task", a.Token, a.Format,
			cmd.Flag("stage").Value)
	}
	if a.Servers[0] != "http://node" {
		t.Errorf("server = %q, want the environment's", a.Servers)
	}
	delete(env, "ROTA_TASK")
	delete(env, "ROTA_OUTPUT")
	if a, cmd, err = configured(t, "", env, "submit", "next"); err != nil ||
		a.Token != "hand-out" || cmd.Flag("stage").Value.String() != "digest" {
		t.Errorf("outside a task token = %q, stage = %q (%v), want the environment's", a.Token,
			cmd.Flag("stage").Value, err)
	}
}

func TestJobVariablesAreNoSettingsInsideAJob(t *testing.T) {
	env := map[string]string{
		"ROTA_GROUP": "tails", "ROTA_JOB": "a.log", "ROTA_REPLICA": "1", "ROTA_FENCE": "7",
		"ROTA_TOKEN": "assignment", "ROTA_ALIVE": "/tmp/alive", "ROTA_SERVER": "http://node",
	}
	// what the settings file says must hold, as it does inside a task
	a, cmd, err := configured(t, "token: access\n", env, "group", "logs", "tails", "a.log")
	if err != nil {
		t.Fatal(err)
	}
	if a.Token != "access" || cmd.Flag("replica").Value.String() != "-1" {
		t.Errorf("token %q, replica %s were taken from the job", a.Token, cmd.Flag("replica").Value)
	}
	if a.Servers[0] != "http://node" {
		t.Errorf("server = %q, want the environment's", a.Servers)
	}
	delete(env, "ROTA_FENCE")
	if a, cmd, err = configured(t, "", env, "group", "logs", "tails", "a.log"); err != nil ||
		a.Token != "assignment" || cmd.Flag("replica").Value.String() != "1" {
		t.Errorf("outside a job token = %q, replica = %s (%v), want the environment's", a.Token,
			cmd.Flag("replica").Value, err)
	}
}

func TestBadEnvironmentIsNamed(t *testing.T) {
	_, _, err := configured(t, "", map[string]string{"ROTA_BEAT": "soon"}, "serve")
	if err == nil || !strings.Contains(err.Error(), "ROTA_BEAT: ") {
		t.Errorf("error = %v, want one that names ROTA_BEAT", err)
	}
}

// TestEachFlagIsAListOrTakesOneValue: none keeps the last of several values in silence.
func TestEachFlagIsAListOrTakesOneValue(t *testing.T) {
	var walk func(cmd *cobra.Command)
	seen := 0
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			seen++
			_, list := f.Value.(pflag.SliceValue)
			_, many := f.Value.(interface{ TakesMany() })
			// the type that refuses a second value is the package's own
			once := strings.HasSuffix(fmt.Sprintf("%T", f.Value), ".once")
			if once == (list || many) && f.Name != "help" {
				t.Errorf("%s --%s keeps the last of several values, or only one of a list",
					cmd.CommandPath(), f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	if walk(rootOf(&app.App{})); seen < 100 {
		t.Errorf("%d flags", seen)
	}
}
