package events

import (
	"context"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/usage"
	"github.com/spf13/cobra"
)

// setFlags are what `rota notifier set` was told.
type setFlags struct {
	notifier client.NotifierConf // but for what is below

	urlFile, secretFile, passwordFile, templateFile string

	line string // the command of one that runs commands, for sh
}

func (a commands) set() *cobra.Command {
	var f setFlags
	cmd := a.Remote(&cobra.Command{
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
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("notifier", args...); err != nil {
			return err
		}
		conf, err := f.conf(a.App)
		if err != nil {
			return err
		}
		n, err := c.PutNotifier(ctx, args[0], conf)
		if err != nil {
			return err
		}
		return a.Show(notifierDoc{n, n.Failing}, func() string { return notifierText(n) })
	})
	f.add(cmd)
	return cmd
}

func (f *setFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringSliceVar(&f.notifier.On, "on", []string{"*"},
		"`kinds` of events; node.* is all that begin with node.")
	s.StringSliceVar(&f.notifier.Subjects, "about", nil,
		"only events about these `names`; n* is all that begin with n (default anything)")
	s.StringVar(&f.urlFile, "url-file", "", "`file` with the webhook's URL")
	s.StringVar(&f.secretFile, "secret-file", "",
		"`file` with the key that messages are signed with: whsec_…, or what DingTalk or Feishu gave")
	s.StringVar(&f.notifier.Format, "format", "",
		"`form` of the webhook's body: generic, slack, teams, dingtalk, feishu, wecom or telegram (default generic)")
	s.StringVar(&f.templateFile, "template-file", "",
		"`file` with a body of your own (default the format's)")
	s.StringVar(&f.notifier.Chat, "chat", "", "`id` of the Telegram chat")
	s.StringVar(&f.notifier.Server, "mail-server", "", "`HOST:PORT` of the mail server")
	s.StringVar(&f.notifier.TLS, "tls", "",
		"how the mail connection is protected: starttls, implicit or none (default starttls; implicit at port 465; none at this machine)")
	s.StringVar(&f.notifier.User, "user", "", "`name` for the mail server")
	s.StringVar(&f.passwordFile, "password-file", "", "`file` with the password for the mail server")
	s.StringVar(&f.notifier.From, "from", "", "`address` that mail comes from")
	s.StringSliceVar(&f.notifier.To, "to", nil, "`addresses` that mail goes to; owner is who owns what an event is about")
	s.StringVar(&f.notifier.Queue, "submit", "", "`queue` in which each event becomes a task")
	s.StringVar(&f.line, "run", "", "`command` line that is run for each event")
}

// conf is the notifier that the flags describe, with what their files hold.
func (f *setFlags) conf(a *app.App) (conf client.NotifierConf, err error) {
	conf = f.notifier
	mails, submits, runs := len(conf.To) > 0, conf.Queue != "", f.line != ""
	switch conf.Kind = "webhook"; {
	case mails && submits, mails && runs, submits && runs:
		return conf, usage.Errorf(
			"give one of --submit, --run and --to: a notifier does one thing")
	case mails:
		conf.Kind = "email"
	case submits:
		conf.Kind = "submit"
	case runs:
		conf.Kind, conf.Command = "run", []string{"sh", "-c", f.line}
	}
	for _, s := range []struct {
		file string
		to   *string
	}{
		{f.urlFile, &conf.URL}, {f.secretFile, &conf.Secret},
		{f.passwordFile, &conf.Password}, {f.templateFile, &conf.Template},
	} {
		if err := a.ReadSecret(s.file, s.to); err != nil {
			return conf, err
		}
	}
	return conf, nil
}
