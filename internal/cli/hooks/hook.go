package hooks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/view"
)

// commands look after what other programs call.
type commands struct{ *app.App }

// Commands are the commands that look after hooks.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.hook()}
}

func (a commands) hook() *cobra.Command {
	return app.Family("hook", "Have other programs submit tasks and send signals, by webhooks",
		`Look after hooks. A hook is what another program calls when something has happened: GitHub,
Stripe, Slack, Shopify, or whatever signs what it sends. It has no access token of the
server's: that it knows the hook's secret is shown by its signature. Each delivery becomes one
task, however often it comes, or a signal. The URL to give it is SERVER/v1/hooks/NAME.`,
		`  rota hook set builds --scheme github --secret-file secret --queue builds
  rota hook set paid --scheme stripe --secret-file secret --signal paid --signal-key /data/object/id
  rota hook test builds @push.json --secret-file secret
  rota hook ls`,
		a.list(), a.show(), a.set(), a.remove(), a.test())
}

func (a commands) list() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "ls",
		Short: "List hooks and what their calls become",
		Long: `List hooks: how their calls are signed, how many secrets each knows, and what a call becomes.
Secrets are never shown.`,
		Example: `  rota hook ls
  rota hook ls -o json`,
		Args: app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Hooks(ctx)
		if err != nil {
			return err
		}
		doc := term.Page[view.Hook]{Items: append([]view.Hook{}, list...)}
		return a.Show(doc, func() string {
			t := a.Table("HOOK", "SCHEME", "#SECRETS", "BECOMES")
			for i := range list {
				h := &list[i]
				t.Add(h.Name, h.Scheme, term.Count(int64(h.Secrets)), becomes(h))
			}
			return t.String()
		})
	})
}

// becomes says what a hook's deliveries become.
func becomes(h *view.Hook) string {
	if h.Signal != "" {
		return term.OneLine("signal " + h.Signal + ", key at " + h.Key)
	}
	text := "task in queue " + h.Queue
	if h.Stage != "" {
		text += fmt.Sprintf(", stage %q", h.Stage)
	}
	return term.OneLine(text)
}

func (a commands) show() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:     "show NAME",
		Short:   "Show a hook",
		Long:    `Show a hook, without its secrets.`,
		Example: `  rota hook show builds`,
		Args:    app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("hook", args...); err != nil {
			return err
		}
		h, err := c.Hook(ctx, args[0])
		if err != nil {
			return err
		}
		return a.Show(h, func() string { return text(&h) })
	})
}

func text(h *view.Hook) string {
	s := term.Sheet{Indent: 10}
	s.Line("hook", term.Bold(h.Name))
	s.Line("path", "/v1/hooks/"+h.Name)
	s.Line("scheme", h.Scheme)
	s.Line("secrets", fmt.Sprint(h.Secrets))
	s.Line("header", term.OneLine(h.Header+" "+h.Prefix))
	if h.Tolerance != 0 {
		s.Line("tolerance", time.Duration(h.Tolerance).String())
	}
	s.Line("id", term.OneLine(h.ID))
	s.Line("headers", term.OneLine(strings.Join(h.Headers, ", ")))
	s.Line("becomes", becomes(h))
	if h.Priority != 0 {
		s.Line("priority", time.Duration(h.Priority).String())
	}
	s.Line("group key", term.OneLine(h.GroupKey))
	s.Line("meta", app.MetaText(h.Meta))
	if h.Keep != 0 {
		s.Line("keep", time.Duration(h.Keep).String())
	}
	return s.String()
}

func (a commands) remove() *cobra.Command {
	return a.ForEach("hook", &cobra.Command{
		Use:     "rm",
		Short:   "Forget hooks",
		Long:    `Forget hooks. What they have submitted stays; later calls are refused.`,
		Example: `  rota hook rm builds`,
	}, (*client.Client).DeleteHook)
}

func (a commands) test() *cobra.Command {
	var call client.HookCall
	var secretFile string
	var headers []string
	cmd := a.Remote(&cobra.Command{
		Use:   "test NAME BODY",
		Short: "Call a hook as the other program would",
		Long: `Sign BODY with the secret of --secret-file, as the hook wants it, call the hook, and print the
answer. It does what a call of the other program does. BODY is a text, - for stdin, or @file.
Each test is another delivery, unless --id or the body says otherwise.`,
		Example: `  rota hook test builds @push.json --secret-file secret --header 'X-GitHub-Event: push'
  rota hook test builds '{"repository":{"full_name":"ann/site"}}' --secret-file secret --id 1
  rota hook test talk 'command=/deploy&user_id=U1' --secret-file secret \
      --header 'Content-Type: application/x-www-form-urlencoded'`,
		Args: app.Takes("NAME", "BODY"),
	}, func(ctx context.Context, c *client.Client, args []string) (err error) {
		if err := app.CheckNames("hook", args[0]); err != nil {
			return err
		}
		if secretFile == "" {
			return usage.Errorf("--secret-file is needed: the server shows its secrets to nobody")
		}
		if err := a.ReadSecret(secretFile, &call.Secret); err != nil {
			return err
		}
		if call.Header, err = headersOf(headers); err != nil {
			return err
		}
		call.Body = []byte(args[1])
		if file, ok := strings.CutPrefix(args[1], "@"); ok || args[1] == "-" {
			if call.Body, err = a.ReadFrom(file); err != nil {
				return err
			}
		}
		if _, err := c.Hook(ctx, args[0]); err != nil {
			return err
		}
		got, err := c.CallHook(ctx, args[0], call)
		if errors.Is(err, client.ErrUnauthorized) { // no access token would help
			return fmt.Errorf("%v; --secret-file must have one of the hook's secrets", err)
		}
		if err != nil {
			return err
		}
		return a.Show(got, func() string { return answerText(&got) + "\n" })
	})
	cmd.Flags().StringVar(&secretFile, "secret-file", "",
		"`file` with the secret to sign with, - for stdin")
	cmd.Flags().StringVar(&call.ID, "id", "",
		"`id` of the delivery, where it stands in a header (default a new one)")
	cmd.Flags().StringArrayVar(&headers, "header", nil,
		"a header, `NAME: VALUE`, also in place of one that the scheme has; repeat it for others")
	return cmd
}

func headersOf(list []string) (map[string]string, error) {
	set := map[string]string{}
	for _, text := range list {
		name, value, ok := strings.Cut(text, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usage.Errorf("--header %q: want NAME: VALUE", text)
		}
		set[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return set, nil
}

// answerText says what became of a call.
func answerText(got *client.HookAnswer) string {
	switch {
	case got.Silent:
		return "It is stored, and answered nothing, as Slack wants it of forms"
	case got.Challenge != "":
		return "It is answered the challenge " + term.OneLine(got.Challenge)
	case got.ID.Batch != 0 && got.Existing:
		return fmt.Sprintf("The delivery came before: it is task %v", got.ID)
	case got.ID.Batch != 0:
		return fmt.Sprintf("It is task %v", got.ID)
	case got.Delivered && got.Repeated:
		return "The signal had been sent before, and a task has got it"
	case got.Delivered:
		return "A task has got the signal"
	case got.Repeated:
		return "No task waits for the signal yet; it had been sent before"
	}
	return "No task waits for the signal yet"
}
