// Package pass makes and checks what nodes know each other by. Where callers need access tokens, a
// node that calls another one shows a pass: its name, the time, a number that was used for nothing
// else, and a MAC of them, of the call, its body and the name of the node that it is for, made with
// a key that only nodes of the store can read. So a pass is good for one call at one node, once, and
// not for longer than Window: whoever overhears one can do nothing with it.
package pass

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/limits"
)

// Scheme is that of the header Authorization in calls that carry a pass.
const Scheme = "Rota-Node"

const (
	// Window is how long a call may be on its way, and how far the store's clock may jump
	// meanwhile.
	Window = 15 * time.Second
	// maxBody is the largest body of a call of a node at another one.
	maxBody = 64 << 10
	// maxUsed is how many passes are remembered of each of the last two spans of twice Window.
	// When there are more none is taken.
	maxUsed = 32 << 10
)

// Pass is one node's: with it the node makes passes for its calls, and checks those of others.
type Pass struct {
	Node string
	Key  []byte // of the store
}

// Show puts the pass for a call at a node into its header.
func (p Pass) Show(q *http.Request, at string, body []byte, now time.Time) {
	stamp, once := strconv.FormatInt(now.UnixMilli(), 10), rand.Text()
	mac := p.mac(body, p.Node, at, stamp, once, q.Method, q.URL.RequestURI())
	q.Header.Set("Authorization",
		strings.Join([]string{Scheme, url.PathEscape(p.Node), stamp, once,
			base64.RawURLEncoding.EncodeToString(mac)}, " "))
}

// Check names the node that made a call, by the pass in its header. It reads the call's body, and
// puts it back. mac is what the pass is told from others by.
func (p Pass) Check(r *http.Request, now time.Time) (node string, mac [sha256.Size]byte, ok bool) {
	words := strings.Split(r.Header.Get("Authorization"), " ")
	if len(words) != 5 || words[0] != Scheme || strings.Contains(words[3], "\n") {
		return "", mac, false
	}
	node, err := url.PathUnescape(words[1]) // headers are ASCII, names are not
	if err != nil || !limits.ValidName(node) || url.PathEscape(node) != words[1] {
		return "", mac, false
	}
	stamp, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil || now.Sub(time.UnixMilli(stamp)).Abs() > Window {
		return "", mac, false
	}
	said, err := base64.RawURLEncoding.DecodeString(words[4])
	if err != nil {
		return "", mac, false
	}
	body, err := wholeBody(r)
	if err != nil ||
		!hmac.Equal(said,
			p.mac(body, node, p.Node, words[2], words[3], r.Method, r.RequestURI)) {
		return "", mac, false
	}
	return node, [sha256.Size]byte(said), true
}

// wholeBody reads a body that must be short, and puts it back.
func wholeBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errors.New("the body is too long")
	}
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

func (p Pass) mac(body []byte, words ...string) []byte {
	sum := sha256.Sum256(body)
	mac := hmac.New(sha256.New, p.Key)
	mac.Write([]byte(strings.Join(words, "\n"))) // none of them has a line break
	mac.Write([]byte("\n"))
	mac.Write(sum[:])
	return mac.Sum(nil)
}

// Used remembers the passes that were good, by their MACs, for as long as they would be good
// again. The zero value is empty.
type Used struct {
	mu       sync.Mutex
	now, old map[[sha256.Size]byte]struct{}
	since    time.Time // of now
}

// First tells whether a pass comes for the first time, at a moment by this process's clock. When
// too many came it says no, of each.
func (u *Used) First(mac [sha256.Size]byte, at time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if passed := at.Sub(u.since); u.now == nil || passed > 2*Window {
		if u.old = u.now; passed > 4*Window {
			u.old = nil
		}
		u.now, u.since = map[[sha256.Size]byte]struct{}{}, at
	}
	_, again := u.now[mac]
	if _, before := u.old[mac]; again || before || len(u.now) >= maxUsed {
		return false
	}
	u.now[mac] = struct{}{}
	return true
}
