package client

import (
	"fmt"
	"net/http"
)

// maxRedirects is how often one call is sent on, as net/http has it where nobody says otherwise.
const maxRedirects = 10

// checkRedirect follows a redirect as long as the call stays what it is. After most of them
// net/http makes a GET of any other method: that changes nothing, and its answer would be taken for
// one to the change. A token that is sent to a server over TLS is never sent to another one
// without. What is not followed is answered to the caller as a refusal.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case next.Method != first.Method, len(via) >= maxRedirects,
		first.URL.Scheme == "https" && next.URL.Scheme != "https":
		return http.ErrUseLastResponse
	}
	return nil
}

// moved says where a redirect leads that was not followed; "" = it is none.
func moved(status int, header http.Header) string {
	to := header.Get("Location")
	if status/100 != 3 || to == "" {
		return ""
	}
	return fmt.Sprintf("the server sends the call on to %.200q, which is not followed for it: "+
		"use the address of the server itself", to)
}
