// Package api is the REST face of a node: it reads requests, asks the [Engine], and writes answers.
//
// It decides nothing about tasks and jobs. What it does decide is who may call (access.go), what a
// well-formed call is, how much of what is under way fits into memory and time (body.go, answer.go,
// pace.go), and how errors look (problem.go).
//
// # The door, and the calls behind it
//
// [API] is the door: what all calls have in common, whatever they are about. Its files: who may
// call (access.go, scope.go, retoken.go), a call's way in and out (serve.go, query.go, body.go,
// answer.go, response.go), answers that go on (follow.go, textlog.go), how much there may be of
// what (budget.go, pace.go, throttle.go), refusals (problem.go, refusals.go), what is told of
// changes (audit.go), what is counted (metrics*.go), and the document (openapi.go).
//
// Behind it stand the calls, a struct for each noun, in the file of its name: queueCalls in
// queues.go, claimCalls in claims.go, and so on; nouns.go lists them all. Such a struct knows the
// door, by a small interface what it asks of the node, and what it keeps for itself: no other
// noun's calls touch that. The interface stands at the head of the file and has at most eight
// methods; [Engine] and [Cluster] are the sums of several, for whoever puts a node together.
// hotCalls come by more doors than HTTP: what they do stands in call.go, for streams (stream.go)
// and hooks, too.
//
// A new call is a method of its noun's struct, as this one of clusterCalls:
//
//	func (c *clusterCalls) put(w *answer, r *http.Request) error {
//		var in clusterIn
//		if err := c.door.strict(w, r, &in); err != nil { // reads the body
//			return err
//		}
//		if err := c.nodes.SetRebalance(r.Context(), in.Rebalance); err != nil {
//			return err // becomes a problem document, see problem.go
//		}
//		w.note("rebalance", in.Rebalance) // what is told of the change
//		c.door.writeValue(w, http.StatusOK, in)
//		return nil
//	}
//
// It is made known by a line in register, c.door.described(putClusterDoc, c.put), or, without a
// body, by operation(c.door, …). rights, reaches and changes say of each call who may make it, what
// a scope means for it, and how it is told: one that they do not name can't be registered.
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
// as they are announced, out of a common budget (256 MiB), and 320 bytes for each task, report and
// child in them: when it is spent, submissions are refused first, and a quarter of it is left for
// workers' calls.
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
