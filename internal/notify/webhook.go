package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/hook"
	"github.com/rotahq/rota/internal/store"
)

// refusedError is an answer that says that a message was not taken.
type refusedError struct {
	text  string
	after time.Duration // what it asks to wait
}

func (e *refusedError) Error() string { return e.text }

// maxAnswer is how much of an answer is read.
const maxAnswer = 16 << 10

// post sends a message to a webhook. No error shows the URL: it may be all that is needed to write
// there.
func (o *outgoing) post(ctx context.Context, n *store.Notifier, m message) error {
	f := formats[n.Format]
	request, err := f.request(ctx, n, m)
	if err != nil {
		return hide(n, err)
	}
	response, err := o.http.Do(request)
	if err != nil {
		return hide(n, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case response.StatusCode/100 == 3:
		return hide(n, &refusedError{
			text: fmt.Sprintf("it answered %s: redirects are not followed", response.Status),
		})
	case response.StatusCode/100 != 2:
		return hide(n, &refusedError{
			text: strings.TrimSuffix(fmt.Sprintf("it answered %s: %s", response.Status,
				shown(n, body)), ": "),
			after: retryAfter(response.Header),
		})
	case f.fine == nil: // the status has said it, whatever became of the rest of the answer
	case err != nil:
		return hide(n, fmt.Errorf("read its answer: %w", err))
	default:
		if err := f.fine(body); err != nil {
			return hide(n, &refusedError{text: shown(n, []byte(err.Error()))})
		}
	}
	return nil
}

// request makes the call that carries a message, signed if there is a key.
func (f *format) request(ctx context.Context, n *store.Notifier, m message) (*http.Request, error) {
	to, err := url.Parse(string(n.Secrets.URL))
	if err != nil {
		return nil, errors.New("its URL can't be read")
	}
	key, seconds := string(n.Secrets.Key), strconv.FormatInt(m.now.Unix(), 10)
	var timestamp, sign string
	switch {
	case key == "":
	case f.sign == signQuery:
		millis := strconv.FormatInt(m.now.UnixMilli(), 10)
		query := to.Query()
		query.Set("timestamp", millis)
		query.Set("sign", mac([]byte(key), millis+"\n"+key))
		to.RawQuery = query.Encode()
	case f.sign == signBody:
		timestamp, sign = seconds, mac([]byte(seconds+"\n"+key), "")
	}
	body, err := f.render(n, m, timestamp, sign)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(),
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	request.Header.Set("User-Agent", "rota")
	if f.sign == signHeaders {
		request.Header.Set("Webhook-Id", m.id)
		request.Header.Set("Webhook-Timestamp", seconds)
		if key != "" {
			signed, err := hook.Sign(standard, n.Secrets.Key, m.id, body, m.now)
			if err != nil {
				return nil, err
			}
			for name, value := range signed {
				request.Header.Set(name, value)
			}
		}
	}
	return request, nil
}

// standard is the hook that takes what is sent signed: whoever has one receives it.
var standard = &store.Hook{Scheme: hook.Standard}

// render makes the body, by the notifier's own template if it has one.
func (f *format) render(n *store.Notifier, m message, timestamp, sign string) ([]byte, error) {
	body := f.body
	if n.Template != "" {
		var err error
		if body, err = parseOwn(n.Template, &meter{until: time.Now().Add(maxTime)}); err != nil {
			return nil, fmt.Errorf("parse template: %w", err)
		}
	}
	return render(body, wordsOf(&m, f.text, timestamp, sign))
}

func mac(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// retryAfter is how long an answer asks to wait, as far as it says so in seconds.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 || n > 3600 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// printable is what another side said, in one line without control characters.
func printable(b []byte) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(b), "�")))
}

// hide takes what is secret of a notifier out of an error, and with it the types inside but for a
// refusal. What the other end said is printable then.
func hide(n *store.Notifier, err error) error {
	var outer *url.Error
	if errors.As(err, &outer) { // it begins with the URL
		err = outer.Err
	}
	text := masked(n, printable([]byte(err.Error())))
	var refused *refusedError
	if errors.As(err, &refused) {
		return &refusedError{text, refused.after}
	}
	return errors.New(text)
}

// shown is the beginning of what another side said. What is secret is taken out before it is cut:
// the first part of a secret must not be shown, either.
func shown(n *store.Notifier, said []byte) string { return cut(masked(n, printable(said)), 200) }

// masked is a text without what is secret of a notifier.
func masked(n *store.Notifier, text string) string {
	for _, s := range secretsOf(n) {
		text = strings.ReplaceAll(text, s, "…")
	}
	return text
}

// secretsOf are the texts that no error may show: the secrets, and what they look like on the way.
func secretsOf(n *store.Notifier) (list []string) {
	add := func(s string) {
		if len(s) > 3 {
			list = append(list, s)
		}
	}
	add(string(n.Secrets.URL))
	if u, err := url.Parse(string(n.Secrets.URL)); err == nil {
		add(u.RequestURI())
		add(u.Path)
		add(u.RawQuery)
	}
	add(string(n.Secrets.Key))
	if p := string(n.Secrets.Password); p != "" {
		add(p)
		add(base64.StdEncoding.EncodeToString([]byte(p)))
		add(base64.StdEncoding.EncodeToString([]byte("\x00" + n.User + "\x00" + p)))
	}
	return list
}
