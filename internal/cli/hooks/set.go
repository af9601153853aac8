package hooks

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/usage"
)

// setFlags are what `rota hook set` was told.
type setFlags struct {
	hook        client.HookConf // but for what is below
	secretFiles []string
	meta        app.MetaFlag
	given       *pflag.FlagSet
}

func (a commands) set() *cobra.Command {
	var f setFlags
	cmd := a.Remote(&cobra.Command{
		Use:   "set NAME",
		Short: "Create a hook or change it",
		Long: `Create a hook or change it: the flags are its whole configuration. With --queue each delivery
becomes a task, whose context is {"hook","id","headers","body"}, or "form" with the fields of a
form; with --signal a signal, whose payload is the body. Secrets are read from files, - is stdin,
so that they stand in no list of processes; without --secret-file they stay as they are, as long as
the scheme does.

    --scheme    how calls are signed
    github      X-Hub-Signature-256, as GitHub, Gitea and Forgejo do
    stripe      Stripe-Signature, with a time
    slack       X-Slack-Signature, with a time
    shopify     X-Shopify-Hmac-Sha256
    standard    Standard Webhooks, with a time: webhook-signature, or svix-signature
    plain       --header with the HMAC-SHA256 of the body in hex or base64, behind --prefix

To replace a secret, give both files until the other program signs with the new one, at most
three. --id says where the id of a delivery stands when the scheme does not: a JSON pointer
into the body, as /event/id, or the name of a header. The same id makes one task. Pointers lead
into forms, too, and on into a field whose text is JSON: /payload/user/id.`,
		Example: `  rota hook set builds --scheme github --secret-file secret --queue builds \
      --group-key /repository/full_name
  rota hook set paid --scheme stripe --secret-file secret --signal paid --signal-key /data/object/id
  rota hook set builds --scheme github --secret-file new --secret-file old --queue builds
  rota hook set shop --scheme plain --header X-Sig --prefix sha256= --secret-file - --id /event/id \
      --queue orders --meta from=shop <secret`,
		Args: app.Takes("NAME"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		if err := app.CheckNames("hook", args...); err != nil {
			return err
		}
		conf, err := f.conf(a.App)
		if err != nil {
			return err
		}
		h, err := c.PutHook(ctx, args[0], conf)
		if err != nil {
			return err
		}
		return a.Show(h, func() string { return text(&h) })
	})
	f.add(cmd)
	return cmd
}

func (f *setFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	f.given = s
	s.StringVar(&f.hook.Scheme, "scheme", "",
		"how calls are signed: github, plain, shopify, slack, standard or stripe")
	s.StringArrayVar(&f.secretFiles, "secret-file", nil,
		"`file` with a secret that calls are signed with; up to 3 times")
	s.StringVar(&f.hook.Header, "header", "",
		"of scheme plain: `name` of the header with the signature (default X-Signature)")
	s.StringVar(&f.hook.Prefix, "prefix", "",
		"of scheme plain: `text` before the signature, as sha256=")
	s.DurationVar((*time.Duration)(&f.hook.Tolerance), "tolerance", 0,
		"how far the time that is signed may be from the node's (default 5m, where the scheme signs one)")
	s.StringVar(&f.hook.ID, "id", "",
		"`place` of the id of a delivery: a JSON pointer or a header (default the scheme's)")
	s.StringSliceVar(&f.hook.Headers, "headers", nil,
		"`names` of headers that the task is told (default Content-Type and the scheme's)")
	s.StringVar(&f.hook.Queue, "queue", "", "`queue` in which each delivery becomes a task")
	s.StringVar(&f.hook.Stage, "stage", "", "`stage` in which the task begins")
	s.DurationVar((*time.Duration)(&f.hook.Priority), "priority", 0, "head start of the task, as 5m")
	s.StringVar(&f.hook.GroupKey, "group-key", "",
		"JSON `pointer` into the body: what stands there is the task's group key")
	s.Var(&f.meta, "meta", "`NAME=TEXT` that each task carries; repeat it for others")
	s.StringVar(&f.hook.Signal, "signal", "", "`name` of the signal that each delivery becomes")
	s.StringVar(&f.hook.Key, "signal-key", "",
		"JSON `pointer` into the body: what stands there is the signal's key")
	s.DurationVar((*time.Duration)(&f.hook.Keep), "keep", 0,
		"how long the signal stands while nobody waits for it (default 24h)")
}

// conf is the hook that the flags describe, with the secrets that their files hold.
func (f *setFlags) conf(a *app.App) (conf client.HookConf, err error) {
	conf = f.hook
	if (conf.Queue == "") == (conf.Signal == "") {
		return conf, usage.Errorf("give --queue, for tasks, or --signal, for signals")
	}
	if err := app.CheckGiven(f.given, "tolerance", "keep"); err != nil {
		return conf, err
	}
	for _, name := range f.secretFiles {
		var secret string
		if err := a.ReadSecret(name, &secret); err != nil {
			return conf, err
		}
		conf.Secrets = append(conf.Secrets, secret)
	}
	conf.Meta = f.meta.Strings()
	return conf, nil
}
