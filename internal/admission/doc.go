// Package admission decides how many tasks of a queue that has limits may begin now: how many run
// at a time, and how fast they begin.
//
// It is pure: no clock, no store. A store asks it inside the transaction that writes hand-outs
// down, while it has the queue's row of table gate for itself (ADR 53):
//
//	gate := admission.Gate{Limits: limits, Bucket: bucket, Running: rows} // as they stand
//	n := gate.Admit(asked, now) // so many rows are written, and gate.Bucket, if there is a rate
//
// Whoever wants to know what holds a queue back, and until when, asks Held.
package admission
