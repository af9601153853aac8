package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// configure gives every flag that the command line left out its value from the environment, else
// from the --config file. The file is checked as a whole whatever the command, so that a slip in it
// is found at the first use.
func configure(a *App, cmd *cobra.Command) error {
	if err := fromEnvironment(cmd.Flags(), a.Env); err != nil {
		return err
	}
	if a.Config == "" {
		return nil
	}
	text, err := os.ReadFile(a.Config)
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	settings, err := parseSettings(text)
	if err != nil {
		return fmt.Errorf("%s: %w", a.Config, err)
	}
	known := settable(a, cmd.Root())
	section := topOf(cmd).Name()
	var wrong []error
	for _, s := range settings {
		if !slices.Contains(known[s.section], s.key) {
			wrong = append(wrong,
				fmt.Errorf("%s:%d: unknown setting %q; known %s are %s", a.Config, s.line, s.key,
					where(s.section), strings.Join(known[s.section], ", ")))
			continue
		}
		flag := cmd.Flags().Lookup(s.key)
		if flag == nil || flag.Changed || s.section != "" && s.section != section {
			continue
		}
		if err := s.apply(flag); err != nil {
			wrong = append(wrong, fmt.Errorf("%s:%d: %s: %w", a.Config, s.line, s.key, err))
		}
	}
	return errors.Join(wrong...)
}

func where(section string) string {
	if section == "" {
		return "at the top"
	}
	return "in " + section
}

// taskVariables describe the task to a command that a worker runs for it. There they are no
// settings: else a command that submits follow-up tasks would pass its own stage and hand-out token
// off as the user's.
var taskVariables = []string{
	"ROTA_TASK", "ROTA_QUEUE", "ROTA_STAGE", "ROTA_ATTEMPT", "ROTA_META", "ROTA_TOKEN",
	"ROTA_OUTPUT", "ROTA_SIGNAL", "ROTA_SIGNAL_FILE", "ROTA_PARENT", "ROTA_CHILDREN",
	"ROTA_WORKER", "ROTA_AFTER", "ROTA_AFTER_FILE",
}

// jobVariables describe the job to a command that a worker runs for it, and are no settings there:
// else a worker that the command starts would serve the job's own group.
var jobVariables = []string{
	"ROTA_GROUP", "ROTA_JOB", "ROTA_REPLICA", "ROTA_FENCE", "ROTA_TOKEN", "ROTA_ALIVE",
}

func fromEnvironment(flags *pflag.FlagSet, env func(string) (string, bool)) error {
	var wrong []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := "ROTA_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if f.Changed || f.Name == "help" || inTask(env) && slices.Contains(taskVariables, name) ||
			inJob(env) && slices.Contains(jobVariables, name) {
			return
		}
		if value, ok := env(name); ok && value != "" {
			if err := flags.Set(f.Name, value); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
			}
		}
	})
	return errors.Join(wrong...)
}

// settable lists, for each section of the file ("" = the top), the keys that may stand there,
// sorted.
func settable(a *App, root *cobra.Command) map[string][]string {
	known := map[string][]string{}
	a.shared.VisitAll(func(f *pflag.Flag) { known[""] = append(known[""], f.Name) })
	var walk func(section string, cmd *cobra.Command)
	walk = func(section string, cmd *cobra.Command) {
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && a.shared.Lookup(f.Name) == nil {
				known[section] = append(known[section], f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			walk(section, sub)
		}
	}
	for _, top := range root.Commands() {
		if top.Name() != "help" && top.Name() != "completion" {
			walk(top.Name(), top)
		}
	}
	for section, keys := range known {
		slices.Sort(keys)
		known[section] = slices.Compact(keys)
	}
	return known
}

// topOf is the command right below the root that cmd belongs to.
func topOf(cmd *cobra.Command) *cobra.Command {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd
}

// setting is one line of a settings file.
type setting struct {
	section string // the command it stands below, "" at the top
	key     string
	values  []string // one, or the members of a list; of a mapping its pairs as k=v
	list    bool
	line    int
}

func (s setting) apply(f *pflag.Flag) error {
	if many, ok := f.Value.(pflag.SliceValue); ok {
		f.Changed = true
		return many.Replace(s.values)
	}
	if s.list {
		return errors.New("takes one value, not a list")
	}
	f.Changed = true
	return f.Value.Set(s.values[0])
}

// parseSettings reads a settings file: keys with values at the top, and below the names of
// commands. It knows the shape only; which keys exist is the caller's affair.
func parseSettings(text []byte) ([]setting, error) {
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one document")
	}
	return settingsOf("", doc.Content[0])
}

func settingsOf(section string, node *yaml.Node) ([]setting, error) {
	if node.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: expected keys and values", node.Line)
	}
	var all []setting
	seen := map[string]bool{}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode || seen[key.Value] {
			return nil, fmt.Errorf("line %d: %q is not a key of its own", key.Line, key.Value)
		}
		seen[key.Value] = true
		if section == "" && value.Kind == yaml.MappingNode {
			below, err := settingsOf(key.Value, value)
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
			continue
		}
		s := setting{section: section, key: key.Value, line: key.Line}
		if err := s.read(value); err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", value.Line, key.Value, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func (s *setting) read(value *yaml.Node) error {
	switch value.Kind {
	case yaml.ScalarNode:
		text, err := scalar(value)
		s.values = []string{text}
		return err
	case yaml.SequenceNode:
		s.list = true
		for _, member := range value.Content {
			text, err := scalar(member)
			if err != nil {
				return err
			}
			s.values = append(s.values, text)
		}
		return nil
	case yaml.MappingNode:
		s.list = true
		for i := 0; i < len(value.Content); i += 2 {
			text, err := scalar(value.Content[i+1])
			if err != nil {
				return err
			}
			s.values = append(s.values, value.Content[i].Value+"="+text)
		}
		return nil
	}
	return errors.New("expected a value or a list")
}

func scalar(node *yaml.Node) (string, error) {
	if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
		return "", errors.New("expected a value")
	}
	return node.Value, nil
}
