package api

import (
	"errors"
	"fmt"
)

// MinToken is the least number of characters of an access token: 64 bits, if they are hexadecimal
// digits.
const MinToken = 16

// Check refuses tokens that could be guessed. It names their lines.
func (t Tokens) Check() error {
	var wrong []error
	for _, line := range t.short {
		wrong = append(wrong,
			fmt.Errorf(
				"line %d: the token must have at least %d characters; make one with: openssl rand -hex 32",
				line, MinToken,
			))
	}
	return errors.Join(wrong...)
}

// SetTokens makes others the access tokens, for calls from now on. Streams of events and logs end,
// and their readers come back with the tokens that they have. A node that has tokens can't lose
// them all, nor get its first ones, while it runs.
func (a *API) SetTokens(t Tokens) error {
	a.retoken.Lock()
	defer a.retoken.Unlock()
	if len(t.by) == 0 || len(a.tokens.Load().by) == 0 {
		return errors.New("set access tokens: a node has them from its start on, or not at all")
	}
	a.tokens.Store(&t)
	close(*a.epoch.Swap(newEpoch()))
	return nil
}

// newEpoch is closed when the tokens change.
func newEpoch() *chan struct{} {
	epoch := make(chan struct{})
	return &epoch
}
