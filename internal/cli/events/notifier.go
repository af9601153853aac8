package events

import (
	"context"
	"fmt"
	"strings"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/view"
	"github.com/spf13/cobra"
)

func (a commands) notifier() *cobra.Command {
	return app.Family("notifier", "Have people told of events, or something done about them",
		`Look after notifiers. A notifier tells somebody of events: by e-mail, or by a webhook in the
form that Slack, Teams, DingTalk, Feishu, WeCom or Telegram takes, or a signed one of your
own (Standard Webhooks); or it acts: it submits a task, or runs a command. It gets each event that it is on at least once, in order; what
can't be delivered is tried again for as long as events are kept.`,
		`  rota notifier set ops --on 'node.*,store.*' --format slack --url-file slack-url
  rota notifier test ops
  rota notifier ls`,
		a.list(), a.set(), a.remove(), a.test())
}

func (a commands) list() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "ls",
		Short: "List notifiers and whether they deliver",
		Long: `List notifiers: what they are on, where they lead, the number of the newest event that was
delivered, and what keeps the next one from it. Secrets are never shown.`,
		Example: `  rota notifier ls
  rota notifier ls -o json`,
		Args: app.Takes(),
	}, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Notifiers(ctx)
		if err != nil {
			return err
		}
		doc := term.Page[notifierDoc]{Items: []notifierDoc{}}
		for _, n := range list {
			doc.Items = append(doc.Items, notifierDoc{n, n.Failing})
		}
		return a.Show(doc, func() string {
			t := a.Table("NOTIFIER", "TO", "ON", "#DELIVERED", "STATE")
			for _, n := range list {
				state := term.Green("delivers")
				if !n.Failing.IsZero() {
					state = term.Red("fails") + " since " + term.Short(n.Failing.Time, a.Now()) +
						": " +
						term.OneLine(n.Trouble)
				}
				t.Add(n.Name, destination(n), term.OneLine(strings.Join(n.On, ",")),
					term.Count(n.Delivered), state)
			}
			return t.String()
		})
	})
}

// notifierDoc is a notifier in JSON: the command line writes last since when it fails.
type notifierDoc struct {
	view.Notifier
	Failing view.Time `json:"failing"`
}

// destination says where a notifier's messages go.
func destination(n view.Notifier) string {
	switch n.Kind {
	case "submit":
		return "queue " + n.Queue
	case "run":
		return term.OneLine("run " + strings.TrimPrefix(strings.Join(n.Command, " "), "sh -c "))
	case "email":
		return term.OneLine(strings.Join(n.To, ", "))
	}
	return term.OneLine(n.Format + " " + n.URL)
}

func notifierText(n view.Notifier) string {
	s := term.Sheet{Indent: 10}
	s.Line("notifier", term.Bold(n.Name))
	s.Line("kind", n.Kind)
	s.Line("on", term.OneLine(strings.Join(n.On, ", ")))
	s.Line("about", term.OneLine(strings.Join(n.Subjects, ", ")))
	s.Line("to", destination(n))
	s.Line("server", term.OneLine(n.Server))
	s.Line("tls", n.TLS)
	if n.Signed {
		s.Line("signed", "yes")
	}
	s.Line("delivered", fmt.Sprint("up to event ", n.Delivered))
	return s.String()
}

func (a commands) remove() *cobra.Command {
	return a.ForEach("notifier", &cobra.Command{
		Use:     "rm",
		Short:   "Forget notifiers",
		Long:    `Forget notifiers. What was not delivered yet stays undelivered.`,
		Example: `  rota notifier rm ops`,
	}, (*client.Client).DeleteNotifier)
}

func (a commands) test() *cobra.Command {
	return a.ForEach("notifier", &cobra.Command{
		Use:   "test",
		Short: "Send a message that nothing happened for",
		Long: `Send a message by each notifier, whatever it is on, and say why it could not be delivered if
it could not.`,
		Example: `  rota notifier test ops`,
	}, (*client.Client).TestNotifier)
}
