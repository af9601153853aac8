package api

import (
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// metaPrefix begins the parameters of a list that filter by what tasks carry: meta.customer=7.
const metaPrefix = "meta."

// takeMeta takes these parameters out of a call's query, as their names are the caller's own, and
// leaves them with its answer.
func takeMeta(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if strings.Contains(r.URL.RawQuery, metaPrefix) {
		query := r.URL.Query()
		taken := url.Values{}
		for name, texts := range query {
			if key, ok := strings.CutPrefix(name, metaPrefix); ok {
				taken[key] = texts
				delete(query, name)
			}
		}
		u := *r.URL // others may have the present one
		u.RawQuery = query.Encode()
		r.URL = &u
		w.(*answer).meta = taken
	}
	next(ctx)
}

// metaOfQuery is the filter that such parameters make.
func metaOfQuery(taken url.Values) (store.Meta, error) {
	list := make(map[string]string, len(taken))
	for key, texts := range taken {
		if len(texts) > 1 {
			return "", wrong("query."+metaPrefix+key, "comes twice")
		}
		list[key] = texts[0]
	}
	return parseMeta("query.meta", list)
}

// parseMeta reads the strings that a filter asks for.
func parseMeta(location string, list map[string]string) (store.Meta, error) {
	var e task.InvalidError
	limits.CheckMeta(list, &e, location)
	return store.MetaOf(list), e.Err()
}
