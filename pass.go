package rota

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/task"
)

const (
	// passWindow is how long a call may be on its way, and how far the store's clock may jump
	// meanwhile.
	passWindow = 15 * time.Second
	// maxPassBody is the largest body of a call of a node at another one.
	maxPassBody = 64 << 10
	// maxUsed is how many passes are remembered of each of the last two spans of twice passWindow.
	// When there are more none is taken.
	maxUsed = 32 << 10
)

// pass is what nodes know each other by where callers need access tokens: a call carries its
// sender's name, the time, a number that was used for nothing else, and a MAC of them, of the call,
// its body and the name of the node that it is for, made with the store's key for it. So only nodes
// of the store can make one, it is good for that call at that node, once, and not for longer than
// passWindow.
type pass struct {
	node string
	key  []byte
}

// show puts the pass for a call at a node into its header.
func (p pass) show(q *http.Request, at string, body []byte, now time.Time) {
	stamp, once := strconv.FormatInt(now.UnixMilli(), 10), rand.Text()
	mac := p.mac(body, p.node, at, stamp, once, q.Method, q.URL.RequestURI())
	q.Header.Set("Authorization",
		strings.Join([]string{api.NodeScheme, p.node, stamp, once,
			base64.RawURLEncoding.EncodeToString(mac)}, " "))
}

// check names the node that made a call, by the pass in its header. It reads the call's body, and
// puts it back. mac is what the pass is told from others by.
func (p pass) check(r *http.Request, now time.Time) (node string, mac [sha256.Size]byte, ok bool) {
	words := strings.Split(r.Header.Get("Authorization"), " ")
	if len(words) != 5 || words[0] != api.NodeScheme || !task.ValidName(words[1]) ||
		strings.Contains(words[3], "\n") {
		return "", mac, false
	}
	stamp, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil || now.Sub(time.UnixMilli(stamp)).Abs() > passWindow {
		return "", mac, false
	}
	said, err := base64.RawURLEncoding.DecodeString(words[4])
	if err != nil {
		return "", mac, false
	}
	body, err := wholeBody(r)
	if err != nil ||
		!hmac.Equal(said,
			p.mac(body, words[1], p.node, words[2], words[3], r.Method, r.RequestURI)) {
		return "", mac, false
	}
	return words[1], [sha256.Size]byte(said), true
}

// wholeBody reads a body that must be short, and puts it back.
func wholeBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxPassBody+1))
	if err == nil && len(body) > maxPassBody {
		err = errors.New("the body is too long")
	}
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

func (p pass) mac(body []byte, words ...string) []byte {
	sum := sha256.Sum256(body)
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(strings.Join(words, "\n"))) // none of them has a line break
	mac.Write([]byte("\n"))
	mac.Write(sum[:])
	return mac.Sum(nil)
}

// usedPasses remembers the passes that were good, by their MACs, for as long as they would be good
// again.
type usedPasses struct {
	mu       sync.Mutex
	now, old map[[sha256.Size]byte]struct{}
	since    time.Time // of now
}

// first tells whether a pass comes for the first time, at a moment by this process's clock. When
// too many came it says no, of each.
func (u *usedPasses) first(mac [sha256.Size]byte, at time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if passed := at.Sub(u.since); u.now == nil || passed > 2*passWindow {
		if u.old = u.now; passed > 4*passWindow {
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

// caller names the node that made a call, if its pass is good and comes for the first time.
func (p *peers) caller(r *http.Request) (node string, ok bool) {
	node, mac, ok := p.pass.check(r, p.now())
	if !ok || !p.used.first(mac, time.Now()) {
		return "", false
	}
	return node, true
}
