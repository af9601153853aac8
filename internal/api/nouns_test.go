package api

import "testing"

// nounOf are the calls of an API about one noun.
func nounOf[T calls](t testing.TB, a *API) T {
	t.Helper()
	for _, n := range a.nouns {
		if found, is := n.(T); is {
			return found
		}
	}
	var none T
	t.Fatalf("there are no %T", none)
	return none
}
