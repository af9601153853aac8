package client

import (
	"net/url"
	"strings"
)

// segment is a name as a part of a path. One of dots is no step up: the call would be about
// something else, and where a job was to be removed its whole group would be.
func segment(name string) string {
	text := url.PathEscape(name)
	if strings.Trim(text, ".") == "" {
		text = strings.ReplaceAll(text, ".", "%2E")
	}
	return text
}
