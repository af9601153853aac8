// Package api is the REST face of a node: it reads requests, asks the [Engine], and writes answers.
//
// It decides nothing about tasks and jobs. What it does decide is who may call (access.go), what a
// well-formed call is, how much of what is under way fits into memory and time (body.go, answer.go,
// pace.go), and how errors look (problem.go).
//
// # Two kinds of calls
//
// Calls with a body (submit, hold, report, beat, log, and the few that configure) and those with a
// large answer (a whole task, a page of jobs) are plain handlers on the standard mux: their JSON is
// read strictly by package wire, the hot ones without reflection. All others are huma operations.
// Both stand in one OpenAPI document, generated from the same types, and both pass through
// [API.serve], which gives every call its limits, its access check, its metrics and its last
// defence against panics.
//
// # Errors
//
// Every refusal is an RFC 9457 problem document, those of the mux included. 400: not understood
// (JSON, types, unknown fields). 413, 422: understood and wrong. 401, 403: access, 429: too many
// wrong tokens. 404, 405, 409: not there, not so, not now. 507: no room. 503 with Retry-After:
// overloaded, closing, or the store's answer proves nothing. 500: a bug of ours, and nothing else.
// Every 5xx says in "outcome" whether nothing was done or nobody knows; all other refusals changed
// nothing. What nobody expected is logged, under the name that the answer gives in "instance".
//
// # Limits
//
// The header must come within 5 s, the body within 30 s; of an answer 256 KiB must be read every
// 10 s; a long poll is limited by its own wait alone. Bodies take memory as their bytes arrive, not
// as they are announced, out of a common budget (256 MiB): when it is spent, submissions are
// refused first, and a quarter of it is left for workers' calls.
//
// Contexts and results in answers have a budget of their own (128 MiB, a quarter of it for holds
// alone), from before they are read out of the store until they are written, without another copy.
// A task's reader waits up to a second for its share, then is refused. A hold asks for its share
// context by context, once tasks are there: what has none is given back unrun, and a hold that
// could have nothing is refused. A page of a list counts 512 bytes an item, a page of jobs 8 MiB:
// it ends when its specs come to half of that. Not counted is what is likely to be at most 64 KiB,
// and contexts that stand in their rows (4 KiB a task).
//
// # Overload
//
// A submission that would probably wait for longer than a second, judged by how fast others went,
// is refused at once; see [pace]. Beats, reports and holds are never refused for that: they make
// room. One that is alone, and little beside little, always goes.
package api
