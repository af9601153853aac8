package hook

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxFields is how many fields a form may have. What has more is no form: it stays a text.
const maxFields = 1_000

// isForm tells whether a Content-Type says that the body is a form.
func isForm(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded")
}

// formOf is a form as a JSON object of its fields, in the order in which they come: texts, and
// where a name comes several times an array of them. On an error the body is no form.
func formOf(body []byte) (json.RawMessage, error) {
	var names []string
	fields, n := map[string][]string{}, 0
	for pair := range strings.SplitSeq(string(body), "&") {
		if pair == "" {
			continue
		}
		if n++; n > maxFields {
			return nil, fmt.Errorf("it has more than %d fields", maxFields)
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err == nil {
			value, err = url.QueryUnescape(value)
		}
		if err != nil || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return nil, fmt.Errorf("its field %d is not percent-encoded UTF-8", n)
		}
		if fields[name] == nil {
			names = append(names, name)
		}
		fields[name] = append(fields[name], value)
	}
	b := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, jsonOf(name)...), ':')
		if list := fields[name]; len(list) > 1 {
			b = append(b, jsonOf(list)...)
		} else {
			b = append(b, jsonOf(list[0])...)
		}
	}
	return append(b, '}'), nil
}
