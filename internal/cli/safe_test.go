package cli

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/cli/app"
)

// What others wrote may hold what moves the cursor or turns the line around: no text for people
// has that.
func TestTextsOfOthersAreSafeOnATerminal(t *testing.T) {
	const evil = `a\u202eb\u001b]0;c\u0007\nzz`
	for name, c := range map[string]struct {
		answer string
		status int
		args   string
	}{
		"group keys": {`{"items":[{"key":"` + evil + `","state":"open"}]}`, 200, "queue keys mail"},
		"notifiers": {`{"items":[{"name":"n","kind":"email","on":["` + evil + `"],"to":["` + evil +
			`"]}],"next":""}`, 200, "notifier ls"},
		"a notifier": {`{"name":"n","kind":"email","on":["` + evil + `"],"subjects":["` + evil +
			`"],"server":"` + evil + `"}`, 200, "notifier set n --on node.* --submit q"},
		"a hook": {`{"name":"h","header":"` + evil + `","prefix":"` + evil + `","id":"` + evil +
			`","headers":["` + evil + `"],"group_key":"` + evil + `","queue":"q"}`, 200, "hook show h"},
		"an error": {`{"status":422,"title":"no","detail":"` + evil + `"}`, 422, "queue show mail"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				io.WriteString(w, c.answer)
			}))
			defer s.Close()
			var out bytes.Buffer
			a := app.New(nil, &out, &out, func(name string) (string, bool) {
				return s.URL, name == "ROTA_SERVER"
			})
			Run(t.Context(), a, strings.Fields(c.args))
			got := out.String()
			if !strings.Contains(got, `a\u202eb`) {
				t.Errorf("it does not show the text:\n%s", got)
			}
			if strings.ContainsAny(got, "\u202e\a") || strings.Contains(got, "\nzz") {
				t.Errorf("it shows what moves the cursor:\n%q", got)
			}
		})
	}
}
