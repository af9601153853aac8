package events

import (
	"context"
	"fmt"
	"strings"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
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
				t.Add(n.Name, destination(n), strings.Join(n.On, ","), term.Count(n.Delivered),
					state)
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

func (a commands) set() *cobra.Command {
	var conf client.NotifierConf
	var urlFile, secretFile, passwordFile, templateFile, line string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a notifier or change it",
		Long: `Create a notifier or change it: the flags are its whole configuration. With --to it sends
e-mail, with --submit it makes a task of each event, with --run it runs a command for each,
else it calls a webhook. Secrets (URL, key, password) are read from files, - is
stdin, so that they stand in no list of processes; without their flag they stay as they are,
as long as they go to the same place.

A new notifier is told of what happens from now on. Addresses of private networks are
reached only where the node allows it: rota serve --allow-private.

The context of a task of --submit is the event: {"seq","time","kind","subject","text",
"fields"}; however often it is tried again, an event makes one task. A command of --run is
run by sh on the node that sends notices, which must be started with --allow-commands: the
event is its input and stands in ROTA_EVENT_SEQ, _KIND, _SUBJECT, _TEXT and _TIME. It has a
minute, and must exit with 0, else it is run again later. Both do two a second at most, and
nothing for events about the notifier itself or the queue that it submits to.

--to owner mails the owner of the queue, group or schedule that an event is about, as its
--owner says when the mail is sent; an owner who is only a name gets none. Events about
anything else go to the other addresses of --to, if there are any.

A template makes the body of a webhook, as a Go text/template that makes JSON:
    {"what": "{{.Title}}", "more": "{{.Text}}", "number": {{.Seq}}, "fields": {{.Object}}}
Texts are escaped for the inside of JSON strings. There are also .Kind, .Subject, .Time and
.Fields.NAME.`,
		Example: `  rota notifier set ops --on 'node.*,store.*,alarm.*' --format slack --url-file slack-url
  rota notifier set hook --url-file url --secret-file key          # signed, Standard Webhooks
  rota notifier set mail --on 'node.offline' --mail-server mail.example.com:587 --user rota \
      --password-file pw --from rota@example.com --to ann@example.com
  rota notifier set owners --on 'queue.*,group.*,schedule.*' --mail-server mail.example.com:587 \
      --from rota@example.com --to owner
  rota notifier set heal --on 'queue.*,schedule.dead' --submit repairs
  rota notifier set page --on 'node.offline' --run 'pager --about "$ROTA_EVENT_SUBJECT"'`,
		Args: app.Takes("NAME"),
	}
	f := cmd.Flags()
	f.StringSliceVar(&conf.On, "on", []string{"*"},
		"`kinds` of events; node.* is all that begin with node.")
	f.StringSliceVar(&conf.Subjects, "about", nil,
		"only events about these `names`; n* is all that begin with n (default anything)")
	f.StringVar(&urlFile, "url-file", "", "`file` with the webhook's URL")
	f.StringVar(&secretFile, "secret-file", "",
		"`file` with the key that messages are signed with: whsec_…, or what DingTalk or Feishu gave")
	f.StringVar(&conf.Format, "format", "",
		"`form` of the webhook's body: generic, slack, teams, dingtalk, feishu, wecom or telegram (default generic)")
	f.StringVar(&templateFile, "template-file", "",
		"`file` with a body of your own (default the format's)")
	f.StringVar(&conf.Chat, "chat", "", "`id` of the Telegram chat")
	f.StringVar(&conf.Server, "mail-server", "", "`HOST:PORT` of the mail server")
	f.StringVar(&conf.TLS, "tls", "",
		"how the mail connection is protected: starttls, implicit or none (default starttls; implicit at port 465; none at this machine)")
	f.StringVar(&conf.User, "user", "", "`name` for the mail server")
	f.StringVar(&passwordFile, "password-file", "", "`file` with the password for the mail server")
	f.StringVar(&conf.From, "from", "", "`address` that mail comes from")
	f.StringSliceVar(&conf.To, "to", nil, "`addresses` that mail goes to; owner is who owns what an event is about")
	f.StringVar(&conf.Queue, "submit", "", "`queue` in which each event becomes a task")
	f.StringVar(&line, "run", "", "`command` line that is run for each event")
	return a.Remote(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("notifier", args...); err != nil {
			return err
		}
		if (conf.Queue != "" || line != "") && len(conf.To) > 0 || conf.Queue != "" && line != "" {
			return usage.Errorf("give one of --submit, --run and --to: a notifier does one thing")
		}
		switch conf.Kind = "webhook"; {
		case len(conf.To) > 0:
			conf.Kind = "email"
		case conf.Queue != "":
			conf.Kind = "submit"
		case line != "":
			conf.Kind, conf.Command = "run", []string{"sh", "-c", line}
		}
		for _, s := range []struct {
			file string
			to   *string
		}{
			{urlFile, &conf.URL}, {secretFile, &conf.Secret}, {passwordFile, &conf.Password},
			{templateFile, &conf.Template},
		} {
			if err := a.ReadSecret(s.file, s.to); err != nil {
				return err
			}
		}
		n, err := c.PutNotifier(ctx, args[0], conf)
		if err != nil {
			return err
		}
		return a.Show(notifierDoc{n, n.Failing}, func() string {
			return notifierText(n)
		})
	})
}

func notifierText(n view.Notifier) string {
	s := term.Sheet{Indent: 10}
	s.Line("notifier", term.Bold(n.Name))
	s.Line("kind", n.Kind)
	s.Line("on", strings.Join(n.On, ", "))
	s.Line("about", strings.Join(n.Subjects, ", "))
	s.Line("to", destination(n))
	s.Line("server", n.Server)
	s.Line("tls", n.TLS)
	if n.Signed {
		s.Line("signed", "yes")
	}
	s.Line("delivered", fmt.Sprint("up to event ", n.Delivered))
	return s.String()
}

func (a commands) remove() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:     "rm NAME…",
		Short:   "Forget notifiers",
		Long:    `Forget notifiers. What was not delivered yet stays undelivered.`,
		Example: `  rota notifier rm ops`,
		Args:    app.Takes("NAME…"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("notifier", args...); err != nil {
			return err
		}
		return app.Each(args, func(name string) error { return c.DeleteNotifier(ctx, name) })
	})
}

func (a commands) test() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "test NAME…",
		Short: "Send a message that nothing happened for",
		Long: `Send a message by each notifier, whatever it is on, and say why it could not be delivered if
it could not.`,
		Example: `  rota notifier test ops`,
		Args:    app.Takes("NAME…"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("notifier", args...); err != nil {
			return err
		}
		return app.Each(args, func(name string) error { return c.TestNotifier(ctx, name) })
	})
}
