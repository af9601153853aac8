package api

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/rotahq/rota/internal/limits"
)

// checkQuery refuses what would otherwise be skipped in silence: broken escapes, and one name
// twice.
func checkQuery(u *url.URL) error {
	if u.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return refuse(http.StatusBadRequest, "the query can't be read: %v", err)
	}
	for name, values := range query {
		switch {
		case !limits.ValidText(name, maxParameter):
			return wrong("query", "has a name that is not printable UTF-8")
		case len(values) > 1:
			return wrong("query."+name, "comes twice")
		case !limits.ValidText(values[0], maxParameter):
			return wrong("query."+name, "must be at most %d bytes of printable UTF-8", maxParameter)
		}
	}
	return nil
}

// maxParameter is the longest value of a query parameter in bytes.
const maxParameter = 1024

// knownQuery refuses parameters that a plain call does not know.
func knownQuery(r *http.Request, known ...string) (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	query := r.URL.Query()
	for name := range query {
		if !slices.Contains(known, name) {
			return nil, wrong("query."+name, "unknown query parameter")
		}
	}
	return query, nil
}
