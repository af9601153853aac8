// Package api is the REST face of a node: it reads requests, asks the [Engine], and writes answers.
//
// It decides nothing about tasks. What it does decide is who may call (access.go), what a well-formed call is, how
// much of them fits into memory (body.go), and how errors look (problem.go).
//
// # Two kinds of calls
//
// Calls with a body (submit, hold, report, beat, log, and the few that configure) are plain handlers on the standard
// mux: their JSON is read strictly by package wire, the hot ones without reflection. All others are huma operations. Both
// stand in one OpenAPI document, generated from the same types, and both pass through [API.serve], which gives every call
// its limits, its access check, its metrics and its last defence against panics.
//
// # Errors
//
// Every refusal is an RFC 9457 problem document, those of the mux included. 400: not understood (JSON, types, unknown
// fields). 413, 422: understood and wrong. 401, 403: access. 404, 405, 409: not there, not so, not now. 503 with
// Retry-After: overloaded, closing, or the outcome of a write is unknown. 507: no room. A call that is refused changed nothing,
// except after an unknown outcome.
//
// # Limits
//
// The header must come within 5 s, the body within 30 s, and an answer must be taken within 30 s; a long poll is limited by
// its own wait alone. Bodies take memory as their bytes arrive, not as they are announced, out of a common budget: when it
// is spent, submissions are refused first, and a quarter of it is left for workers' calls.
package api
