package supervise

import "github.com/rotahq/rota/internal/store"

// sessionState says how far a worker's session at this node has come. It changes by next alone,
// which knows neither lock nor clock nor store: the methods of Sessions observe something and apply
// it.
//
//	                resolved                   goodbye
//	──> arriving ────────────────> serving ────────────────> leaving
//	     │    ^ <──── unseated ────   │                         │
//	     │    │                       │ silence                 │ unseated
//	     │    │ beat                  v                         │
//	     └────┼──────────────────> departed <───────────────────┘
//	goodbye,  └─────────────────────  (removed by the next round)
//	silence
//
//	arriving, serving ── outranked ──> superseded ── goodbye, silence ──> expired
//	leaving, departed ── outranked ──> expired    ── beat ──────────────> superseded
//
// A beat brings a session that is leaving back to arriving. A newer incarnation brings every state
// back to arriving: it is another process.
type sessionState int

const (
	// arriving: the worker beats here, but the store has not said yet what it is to run. Its beats
	// wait.
	arriving sessionState = iota
	// serving: the store says that the worker is here, and it is known what it is to run.
	serving
	// leaving: it was serving and has said that it leaves. Beats that it sent before are still
	// answered.
	leaving
	// departed: it has left or fallen silent, and its beats are not answered. A round writes that
	// down.
	departed
	// superseded: a newer incarnation has its name. Its beats are answered with ErrSuperseded.
	superseded
	// expired: it is superseded, and has left or fallen silent. There is nothing to write down.
	expired
)

// sessionEvent is what was observed of a worker.
type sessionEvent int

const (
	replaced sessionEvent = iota // the first beat of a newer incarnation
	beaten                       // a beat that does not say that the worker leaves
	goodbye                      // a beat that says so
	// no beat for so long that the worker has stopped its jobs by itself
	silence
	outranked // the store knows a newer incarnation
	unseated  // the store does not say that the worker is here
	resolved  // the store says that it is, and what it is to run has been read
)

// next is the state of a session after an event. An event that means nothing in a state leaves it.
func (s sessionState) next(e sessionEvent) sessionState {
	switch e {
	case replaced:
		return arriving
	case beaten:
		return s.returning()
	case goodbye:
		if s == serving {
			return leaving
		}
		return s.ending()
	case silence:
		return s.ending()
	case outranked:
		if s.departing() {
			return expired
		}
		return superseded
	case unseated:
		switch s {
		case serving:
			return arriving
		case leaving:
			return departed
		}
	case resolved:
		if s == arriving {
			return serving
		}
	}
	return s
}

// returning is the state after a beat of a worker that may have been about to go.
func (s sessionState) returning() sessionState {
	switch s {
	case leaving, departed:
		return arriving
	case expired:
		return superseded
	}
	return s
}

// ending is the state of a session whose worker is not expected to beat again.
func (s sessionState) ending() sessionState {
	switch s {
	case arriving, serving:
		return departed
	case superseded:
		return expired
	}
	return s
}

// known reports whether it is known what the worker is to run.
func (s sessionState) known() bool { return s == serving || s == leaving }

// departing reports whether the next round ends the session.
func (s sessionState) departing() bool { return s == leaving || s == departed || s == expired }

// outranked reports whether a newer incarnation has the worker's name.
func (s sessionState) outranked() bool { return s == superseded || s == expired }

// observe applies an event, and reports whether the state changed.
func (s *session) observe(e sessionEvent) (changed bool) {
	before := s.state
	s.state = before.next(e)
	changed = s.state != before
	switch e {
	case replaced, outranked, unseated:
		s.refused = nil
	case beaten:
		if changed {
			s.refused = nil
		}
	case silence:
		if changed {
			s.refused = nil
			s.departure = store.SeatSilent
		}
	case goodbye: // also of one that was silent before
		s.departure = store.SeatLeft
	}
	return changed
}

// reply is what becomes of a beat that asks for orders.
type reply int

const (
	replyOrders     reply = iota
	replyWait             // until a round has found that the worker is here, and what it is to run
	replySuperseded       // the beat is of a process whose name a newer one has
)

// reply decides about a beat of an incarnation.
func (s *session) reply(incarnation string) reply {
	switch {
	case s.incarnation != incarnation, s.state.outranked():
		return replySuperseded
	case !s.state.known(), s.elsewhere > s.checked:
		return replyWait
	}
	return replyOrders
}
