// Package rotaotel traces tasks of rota with OpenTelemetry: what becomes of a task stands in the
// trace of whoever submitted it. It is a module of its own, so that only programs link
// OpenTelemetry that ask for it, and it takes the TracerProvider of the program: how spans are
// sampled and where they go is that one's affair.
//
//	tracer := rotaotel.New(provider)
//
//	// a node, or a worker.Worker, whose handlers are to have spans: before Run
//	node.Use(tracer.Handler)
//
//	// whoever submits: node, a *client.Client or a *rota.Submitter
//	receipts, err := tracer.Submit(ctx, node, mail.New(Mail{To: "ann"}))
//
// # Spans
//
//	submit mail          producer; one for each call, whose tasks carry its ids as their meta
//	├── wait mail        internal; since the task might run, until its handler began
//	└── run mail         consumer; the handler, whose context carries it
//	    ├── …            what the handler does
//	    ├── submit page  children that go with the outcome
//	    └── store mail   client; since the handler returned, until the server acknowledged the outcome
//
// The first attempt at a stage is a child of the submission. A retry (an attempt after the first) is
// the root of a trace of its own, with a link to the submission: a trace does not grow for as long as
// something fails. There the wait stands below the run. Later stages begin as children of the
// submission again, and so does what came back without being charged, after a snooze or a release. A
// task whose meta has no traceparent, or one that is not well formed, runs as a root.
//
// Spans have the attributes of messaging systems (messaging.system is rota, messaging.destination.name
// the queue, messaging.message.id the task) and rota.stage, rota.attempt, rota.worker and
// rota.outcome. A run that is retried or failed has status error, with the text of the error. Those
// of one task are found by messaging.message.id, whatever their traces.
//
// # What holds
//
//   - A trace refuses no task: where the 16 strings of a task's meta, or their 2 KiB, have no room for
//     it, it is left out. What a submission says of a trace itself stands.
//   - A trace that is not sampled has no spans here, in none of its runs and retries, and costs next to
//     nothing. Its tasks carry that it was decided so. A retry of one that is sampled is a root, of
//     which the provider's sampler decides: one that decides by chance had better go by links first,
//     as the example does.
//   - A worker that dies has no spans of what it ran: the next attempt tells of itself only. The
//     task's steps tell the rest.
package rotaotel
