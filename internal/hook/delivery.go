package hook

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// keyFor is how long a delivery is known: senders try again for some days at most.
const keyFor = 7 * 24 * time.Hour

// Delivery is a request that was verified, of a hook.
type Delivery struct {
	hook *store.Hook
	Request
	// value is the body as JSON: as it came, or the fields of a form. nil = it is neither; then
	// lack says what is wrong with it.
	value json.RawMessage
	form  bool
	lack  string
}

// Delivered is a request that was verified, as one of a hook. What is JSON is JSON, whatever its
// Content-Type: many senders say of it that it is a form.
func Delivered(h *store.Hook, r Request) *Delivery {
	d := &Delivery{hook: h, Request: r, lack: "the body is not JSON"}
	inside := slices.Concat([]byte{'['}, r.Body, []byte{']'}) // the context nests it once more
	if wire.CheckValue(r.Body) == "" && wire.CheckValue(inside) == "" {
		d.value = bytes.TrimSpace(r.Body)
		return d
	}
	if isForm(r.Header("Content-Type")) {
		value, err := formOf(r.Body)
		if d.value, d.form = value, err == nil; err != nil {
			d.lack = "the body is no form: " + err.Error()
		}
	}
	return d
}

// Silent tells whether the sender is to be answered nothing when all is well: Slack takes what it
// is answered for a message to the user who has given a command or pressed a button.
func (d *Delivery) Silent() bool { return d.hook.Scheme == "slack" && d.form }

// By is who the hook's signals are from.
func (d *Delivery) By() string { return "hook:" + d.hook.Name }

// Challenge is what Slack wants to be told to believe that a URL is its app's; "" when it does not
// ask.
func (d *Delivery) Challenge() string {
	if d.hook.Scheme != "slack" || d.value == nil || d.form {
		return ""
	}
	var asked struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
	}
	if json.Unmarshal(d.value, &asked) != nil || asked.Type != "url_verification" {
		return ""
	}
	return asked.Challenge
}

// id is what the sender calls the delivery: where the hook says, or where its scheme has it, or
// else the hash of what was signed.
func (d *Delivery) id() (string, error) {
	h, how := d.hook, schemes[d.hook.Scheme]
	switch {
	case isPointer(h.ID):
		return d.text(h.ID)
	case h.ID != "":
		id := d.Header(h.ID)
		if id == "" {
			return "", lacks("header."+h.ID, "is where the id of the delivery should stand")
		}
		return id, nil
	}
	given := how.read(h, &d.Request)
	for _, id := range []string{given.id, d.header(how.id)} {
		if id != "" {
			return id, nil
		}
	}
	if how.idAt != "" && d.value != nil {
		if id, ok := textOf(at(d.value, how.idAt)); ok {
			return id, nil
		}
	}
	hash := sha256.New()
	hash.Write([]byte(how.signed(given.id, given.at)))
	hash.Write(d.Body)
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func (d *Delivery) header(name string) string {
	if name == "" {
		return ""
	}
	return d.Header(name)
}

// text is what stands in the body at a pointer. The error is a *task.InvalidError.
func (d *Delivery) text(pointer string) (string, error) {
	if d.value == nil {
		return "", lacks("body"+pointer, "is not there: "+d.lack)
	}
	value := at(d.value, pointer)
	if len(value) == 0 {
		return "", lacks("body"+pointer, "is not there")
	}
	text, ok := textOf(value)
	if !ok {
		return "", lacks("body"+pointer, "must be a text that is not empty, or a number")
	}
	return text, nil
}

func lacks(location, message string) error {
	var e task.InvalidError
	e.Add(location, "%s", message)
	return e.Err()
}

// Task is the task that the delivery becomes, and the delivery's id. The task's key is the hook's
// name and the id, so that a delivery that comes again makes none. Errors are *task.InvalidError.
func (d *Delivery) Task() (s task.Submission, id string, err error) {
	h := d.hook
	if id, err = d.id(); err != nil {
		return s, "", err
	}
	s = task.Submission{
		Queue: h.Queue, Stage: h.Stage, Priority: h.Priority, Meta: h.Meta,
		Key: keyOfDelivery(h.Name, id), KeyFor: keyFor, Context: d.context(id),
	}
	if h.GroupKey != "" {
		s.GroupKey, err = d.text(h.GroupKey)
	}
	return s, id, err
}

// keyOfDelivery has a / behind the name, since no name has one.
func keyOfDelivery(name, id string) string {
	key := "hook:" + name + "/" + id
	if limits.ValidText(key, limits.MaxKey) {
		return key
	}
	hash := sha256.Sum256([]byte(key))
	return "hook:" + hex.EncodeToString(hash[:])
}

// context is what a worker is told of the delivery.
func (d *Delivery) context(id string) json.RawMessage {
	b := append([]byte(`{"hook":`), jsonOf(d.hook.Name)...)
	b = append(append(b, `,"id":`...), jsonOf(id)...)
	b = append(b, `,"headers":{`...)
	between := ""
	for _, name := range d.hook.Headers {
		if value := d.Header(name); value != "" {
			b = append(append(append(b, between...), jsonOf(name)...), ':')
			b, between = append(b, jsonOf(value)...), ","
		}
	}
	b = append(b, '}', ',')
	switch {
	case d.form:
		b = append(append(b, `"form":`...), d.value...)
	case d.value != nil:
		b = append(append(b, `"body":`...), d.value...)
	case utf8.Valid(d.Body):
		b = append(append(b, `"text":`...), jsonOf(string(d.Body))...)
	default:
		b = append(append(b, `"base64":`...), jsonOf(base64.StdEncoding.EncodeToString(d.Body))...)
	}
	return append(b, '}')
}

// jsonOf is a text or a list of texts as JSON. What is no UTF-8 in it is replaced.
func jsonOf[T string | []string](v T) []byte {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(v); err != nil {
		panic(err) // texts always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// Signal is the signal that the delivery becomes. Errors are *task.InvalidError.
func (d *Delivery) Signal() (s task.SignalRequest, err error) {
	h := d.hook
	s = task.SignalRequest{Name: h.Signal, Keep: h.Keep, Payload: d.value}
	s.Key, err = d.text(h.Key) // of a body that is neither JSON nor a form there is none
	return s, err
}
