package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/store"
)

// message is what is sent of an event.
type message struct {
	id    string // the same whenever this event is sent
	now   time.Time
	event store.Event
	chat  string
}

func messageOf(n *store.Notifier, e *store.Event, now time.Time) message {
	return message{id: fmt.Sprintf("evt-%d", e.Seq), now: now, event: *e, chat: n.Chat}
}

// title says in a line what happened.
func (m *message) title() string {
	if m.event.Subject == "" {
		return m.event.Kind
	}
	return m.event.Kind + " " + m.event.Subject
}

const timeForm = "2006-01-02T15:04:05.000Z"

// words is what templates see. Every text is escaped for the inside of a JSON string, so that no
// event can break out of one.
type words struct {
	Seq     int64
	Kind    string
	Subject string
	Text    string
	Time    string // RFC 3339, UTC
	Title   string // kind and subject
	Fields  map[string]string
	Object  string // the fields as a JSON object
	Chat    string

	Timestamp string // of a signature that stands in the body, in seconds; "" = there is none
	Sign      string
}

func wordsOf(m *message, text func(string) string, timestamp, sign string) words {
	e := &m.event
	clean := func(s string) string { return inside(text(s)) }
	w := words{
		Seq: e.Seq, Kind: clean(e.Kind), Subject: clean(e.Subject), Text: clean(e.Text),
		Time:  time.UnixMicro(e.Time).UTC().Format(timeForm),
		Title: clean(m.title()), Fields: make(map[string]string, len(e.Fields)), Object: "{}",
		Chat: inside(m.chat), Timestamp: timestamp, Sign: inside(sign),
	}
	for k, v := range e.Fields {
		w.Fields[clean(k)] = clean(v)
	}
	if len(e.Fields) > 0 {
		w.Object = string(encoded(e.Fields))
	}
	return w
}

// inside is a text as it stands between the quotes of a JSON string.
func inside(s string) string {
	b := encoded(s)
	return string(b[1 : len(b)-1])
}

// encoded is a value of texts in JSON: those always encode.
func encoded(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Errorf("encode %T: %w", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// cut is at most limit bytes of s, whole characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// parseBody reads a template of a format.
func parseBody(text string) (*template.Template, error) {
	return template.New("template").Option("missingkey=zero").Parse(text)
}

// maxBody is how long a rendered body may be.
const maxBody = 64 << 10

// render makes a body, which must be JSON.
func render(t *template.Template, w words) ([]byte, error) {
	b := &bounded{}
	if err := t.Execute(b, w); err != nil {
		return nil, fmt.Errorf("render body: %w", cheaper(err))
	}
	if !json.Valid(b.Bytes()) {
		return nil, errors.New("render body: the template does not make JSON")
	}
	return b.Bytes(), nil
}

// bounded is a buffer that takes maxBody bytes.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxBody {
		return 0, fmt.Errorf("it is longer than %d bytes", maxBody)
	}
	return b.Buffer.Write(p)
}

// format is what the body for one receiver looks like.
type format struct {
	body *template.Template
	text func(string) string // how texts are written there, before they are escaped for JSON
	// what the answer to a message that was taken says; nil = the status says it
	fine func([]byte) error
	sign signing
}

// signing is where the signature of a message goes.
type signing uint8

const (
	signHeaders signing = iota // by Standard Webhooks
	signQuery                  // as DingTalk has it
	signBody                   // as Feishu has it
)

func plain(s string) string { return s }

// chat is a text of a length that every chat takes.
func chat(s string) string { return cut(s, 1500) }

// slack keeps Slack from reading mentions and links in a text:
// https://docs.slack.dev/messaging/formatting-message-text
func slack(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(chat(s))
}

// Formats: what each receiver documents for messages from outside.
//
//	slack     https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
//	teams     https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using
//	dingtalk  https://open.dingtalk.com/document/robots/custom-robot-access
//	feishu    https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot
//	wecom     https://developer.work.weixin.qq.com/document/path/91770
//	telegram  https://core.telegram.org/bots/api#sendmessage
var formats = map[string]format{
	"generic": {body: must(`{"type":"{{.Kind}}","timestamp":"{{.Time}}","data":{"seq":{{.Seq}},"time":"{{.Time}}","kind":"{{.Kind}}",` +
		`"subject":"{{.Subject}}","text":"{{.Text}}","fields":{{.Object}}}}`), text: plain},
	"slack": {body: must(`{"text":"*{{.Title}}*\n{{.Text}}"}`), text: slack},
	"teams": {body: must(`{"type":"message","attachments":[{"contentType":"application/vnd.microsoft.card.adaptive","contentUrl":null,"content":{` +
		`"$schema":"http://adaptivecards.io/schemas/adaptive-card.json","type":"AdaptiveCard","version":"1.2","body":[` +
		`{"type":"TextBlock","text":"{{.Title}}","weight":"bolder","size":"medium","wrap":true},` +
		`{"type":"TextBlock","text":"{{.Text}}","wrap":true}]}}]}`), text: chat},
	"dingtalk": {body: must(`{"msgtype":"text","text":{"content":"{{.Title}}\n{{.Text}}"}}`),
		text: chat, fine: codeZero("errcode", "errmsg"), sign: signQuery},
	"feishu": {body: must(`{{"{"}}{{if .Sign}}"timestamp":"{{.Timestamp}}","sign":"{{.Sign}}",{{end}}"msg_type":"post","content":{"post":{"en_us":{` +
		`"title":"{{.Title}}","content":[[{"tag":"text","text":"{{.Text}}"}]]}}}}`), text: chat,
		fine: codeZero("code", "msg"), sign: signBody},
	"wecom": {body: must(`{"msgtype":"text","text":{"content":"{{.Title}}\n{{.Text}}"}}`),
		text: chat, fine: codeZero("errcode", "errmsg")},
	"telegram": {body: must(`{"chat_id":"{{.Chat}}","text":"{{.Title}}\n{{.Text}}"}`), text: chat},
}

func must(text string) *template.Template { return template.Must(parseBody(text)) }

// codeZero reads answers that have status 200 and say in a code what became of the message.
func codeZero(code, words string) func([]byte) error {
	return func(body []byte) error {
		var answer map[string]any
		if err := json.Unmarshal(body, &answer); err != nil {
			return errors.New("its answer is no JSON")
		}
		if n, ok := answer[code].(float64); !ok || n != 0 {
			return fmt.Errorf("it answered %s %v: %v", code, answer[code], answer[words])
		}
		return nil
	}
}
