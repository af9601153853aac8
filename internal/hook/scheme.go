package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// Request is a call as it came.
type Request struct {
	// Header is what stands in a header, "" when there is none, whatever its name's case.
	Header func(name string) string
	Body   []byte
}

// signature is what a request says of how it was signed.
type signature struct {
	macs   [][]byte // of which one has to be right
	id, at string   // that are signed, too, where the scheme does so: the delivery, the time
}

// scheme is how one kind of sender signs.
type scheme struct {
	proof []string // headers that show who called
	dated bool     // it signs a time
	id    string   // the header in which deliveries have ids that are not signed; "" = none
	idAt  string   // a pointer to it in the body; "" = none
	shown []string // headers that tell what was sent

	before func(id, at string) string // what is signed before the body; nil = nothing
	read   func(*store.Hook, *Request) signature
	write  func(h *store.Hook, set map[string]string, id, at string, mac []byte)
}

// Standard is the scheme of Standard Webhooks, by which the server's own notifiers sign:
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
const Standard = "standard"

// plain is the scheme whose header and prefix the hook says.
const plain = "plain"

var schemes = map[string]*scheme{
	"github": {
		proof: []string{"X-Hub-Signature-256", "X-Hub-Signature"}, id: "X-GitHub-Delivery",
		shown: []string{"X-GitHub-Event"},
		read: func(_ *store.Hook, r *Request) signature {
			return signature{macs: hexAfter("sha256=", r.Header("X-Hub-Signature-256"))}
		},
		write: func(_ *store.Hook, set map[string]string, _, _ string, mac []byte) {
			set["X-Hub-Signature-256"] = "sha256=" + hex.EncodeToString(mac)
		},
	},
	"shopify": {
		proof: []string{"X-Shopify-Hmac-Sha256"}, id: "X-Shopify-Webhook-Id",
		shown: []string{"X-Shopify-Topic", "X-Shopify-Shop-Domain"},
		read: func(_ *store.Hook, r *Request) signature {
			return signature{macs: base64Of(r.Header("X-Shopify-Hmac-Sha256"))}
		},
		write: func(_ *store.Hook, set map[string]string, _, _ string, mac []byte) {
			set["X-Shopify-Hmac-Sha256"] = base64.StdEncoding.EncodeToString(mac)
		},
	},
	"stripe": {
		proof: []string{"Stripe-Signature"}, dated: true, idAt: "/id",
		before: func(_, at string) string { return at + "." },
		read:   readStripe,
		write: func(_ *store.Hook, set map[string]string, _, at string, mac []byte) {
			set["Stripe-Signature"] = "t=" + at + ",v1=" + hex.EncodeToString(mac)
		},
	},
	"slack": {
		proof: []string{"X-Slack-Signature"}, dated: true, idAt: "/event_id",
		before: func(_, at string) string { return "v0:" + at + ":" },
		read: func(_ *store.Hook, r *Request) signature {
			return signature{
				macs: hexAfter("v0=", r.Header("X-Slack-Signature")),
				at:   r.Header("X-Slack-Request-Timestamp"),
			}
		},
		write: func(_ *store.Hook, set map[string]string, _, at string, mac []byte) {
			set["X-Slack-Request-Timestamp"] = at
			set["X-Slack-Signature"] = "v0=" + hex.EncodeToString(mac)
		},
	},
	Standard: {
		proof: []string{"Webhook-Signature", "Svix-Signature"}, dated: true,
		before: func(id, at string) string { return id + "." + at + "." },
		read:   readStandard,
		write: func(_ *store.Hook, set map[string]string, id, at string, mac []byte) {
			set["Webhook-Id"], set["Webhook-Timestamp"] = id, at
			set["Webhook-Signature"] = "v1," + base64.StdEncoding.EncodeToString(mac)
		},
	},
	plain: {
		read: func(h *store.Hook, r *Request) signature {
			text, ok := strings.CutPrefix(r.Header(h.Header), h.Prefix)
			if !ok {
				return signature{}
			}
			return signature{macs: append(hexAfter("", text), anyBase64(text)...)}
		},
		write: func(h *store.Hook, set map[string]string, _, _ string, mac []byte) {
			set[h.Header] = h.Prefix + hex.EncodeToString(mac)
		},
	},
}

// Schemes are the names of all schemes.
func Schemes() []string { return slices.Sorted(maps.Keys(schemes)) }

// maxMacs is how many signatures of one call are looked at: its sender signs with some secrets at a
// time.
const maxMacs = 8

func readStripe(_ *store.Hook, r *Request) (s signature) {
	for part := range strings.SplitSeq(r.Header("Stripe-Signature"), ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); {
		case name == "t":
			s.at = value
		case name == "v1" && len(s.macs) < maxMacs:
			s.macs = append(s.macs, hexAfter("", value)...)
		}
	}
	return s
}

// readStandard reads the headers of Standard Webhooks, or, where there are none, those by which
// Svix called them before.
func readStandard(_ *store.Hook, r *Request) (s signature) {
	from := "Webhook-"
	if r.Header(from+"Signature") == "" {
		from = "Svix-"
	}
	s.id, s.at = r.Header(from+"Id"), r.Header(from+"Timestamp")
	for part := range strings.SplitSeq(r.Header(from+"Signature"), " ") {
		if text, ok := strings.CutPrefix(part, "v1,"); ok && len(s.macs) < maxMacs {
			s.macs = append(s.macs, base64Of(text)...)
		}
	}
	return s
}

// signed is what stands before the body in the text that is signed.
func (s *scheme) signed(id, at string) string {
	if s.before == nil {
		return ""
	}
	return s.before(id, at)
}

// hexAfter reads a MAC in hex behind a prefix; none when that is not what stands there.
func hexAfter(prefix, text string) [][]byte {
	text, ok := strings.CutPrefix(text, prefix)
	mac, err := hex.DecodeString(text)
	return whole(mac, ok && err == nil)
}

// base64Of reads a MAC in base64.
func base64Of(text string) [][]byte {
	mac, err := base64.StdEncoding.Strict().DecodeString(text)
	return whole(mac, err == nil)
}

// anyBase64 reads a MAC in base64 of any kind: of URLs, too, and without padding.
func anyBase64(text string) [][]byte {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	mac, err := base64.RawStdEncoding.DecodeString(text)
	return whole(mac, err == nil)
}

func whole(mac []byte, ok bool) [][]byte {
	if !ok || len(mac) != sha256.Size {
		return nil
	}
	return [][]byte{mac}
}

// Verify tells whether one of the hook's secrets has signed what came, not too long before or after
// now.
func Verify(h *store.Hook, r Request, now time.Time) bool {
	how := schemes[h.Scheme]
	if how == nil {
		return false
	}
	given := how.read(h, &r)
	before, right := how.signed(given.id, given.at), false
	for _, secret := range h.Secrets {
		key, err := keyOf(h.Scheme, secret)
		mac := macOf(key, before, r.Body)
		for _, g := range given.macs {
			if hmac.Equal(mac, g) && err == nil {
				right = true
			}
		}
	}
	return right && (!how.dated || near(given.at, now, h.Tolerance))
}

// Decoy is a hook by which no call is let in, since its secret is none: calls of a hook that there
// is not are verified by it, so that they take as long as others.
func Decoy() *store.Hook { return &store.Hook{Scheme: Standard, Secrets: []store.Secret{""}} }

// near tells whether a time in seconds is within tolerance of now.
func near(text string, now time.Time, tolerance time.Duration) bool {
	seconds, err := strconv.ParseInt(text, 10, 64)
	return err == nil && now.Sub(time.Unix(seconds, 0)).Abs() <= tolerance // far apart it saturates
}

// keyOf is the key of a secret. On an error it is one, too, that nobody signs with.
func keyOf(scheme string, secret store.Secret) ([]byte, error) {
	if scheme == Standard {
		return ParseKey(string(secret))
	}
	return []byte(secret), nil
}

// keyPrefix begins the keys of Standard Webhooks.
const keyPrefix = "whsec_"

// ParseKey reads a key as Standard Webhooks writes it: 24 to 64 bytes in base64.
func ParseKey(text string) ([]byte, error) {
	raw, ok := strings.CutPrefix(text, keyPrefix)
	key, err := base64.StdEncoding.DecodeString(raw)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, fmt.Errorf("must be %s and 24 to 64 bytes in base64", keyPrefix)
	}
	return key, nil
}

func macOf(key []byte, before string, body []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(before))
	m.Write(body)
	return m.Sum(nil)
}

// Sign is what a caller of the hook says in its headers, besides its body, when it signs with a
// secret: by names as they are written. id is the delivery's, for those schemes and hooks that have
// one in a header.
func Sign(
	h *store.Hook, secret store.Secret, id string, body []byte, now time.Time,
) (map[string]string, error) {
	how := schemes[h.Scheme]
	if how == nil {
		return nil, fmt.Errorf("sign: there is no scheme %q", h.Scheme)
	}
	key, err := keyOf(h.Scheme, secret)
	if err != nil {
		return nil, fmt.Errorf("sign: the secret %w", err)
	}
	set := map[string]string{}
	if how.id != "" {
		set[how.id] = id
	}
	if h.ID != "" && !isPointer(h.ID) {
		set[h.ID] = id
	}
	at := ""
	if how.dated {
		at = strconv.FormatInt(now.Unix(), 10)
	}
	how.write(h, set, id, at, macOf(key, how.signed(id, at), body))
	return set, nil
}
