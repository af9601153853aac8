package api

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/stream"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// message is a call that came, or is coming, on a stream.
type message struct {
	call
	id     uint32
	kind   frame.Kind
	spare  int64 // of the budget for bodies, that it leaves
	cost   int64 // of that budget, besides the body
	text   []byte
	began  time.Time // its first piece
	failed error     // why it is refused; then nothing of it is kept
	ctx    context.Context
	leave  context.CancelFunc // of a call that ends when nobody waits for it; nil = it goes on
}

// next reads until a call has all come.
func (s *streamed) next() (*message, error) {
	s.reading <- struct{}{}
	defer func() { <-s.reading }()
	s.listening.Store(true)
	defer s.listening.Store(false)
	for {
		h, err := s.conn.Next()
		if err != nil {
			return nil, err
		}
		m := s.parts[h.ID]
		switch {
		case h.Kind == frame.Leave:
			if m != nil { // it was given up before all of it came
				s.drop(m)
			}
			s.leave(h.ID)
			if err := s.conn.Skip(h.Size); err != nil {
				return nil, err
			}
			continue
		case m == nil:
			m = s.begin(h)
		case m.kind != h.Kind:
			return nil, &stream.Fault{Code: websocket.StatusProtocolError,
				Reason: "a piece is of another kind than the one before it"}
		}
		if err := s.piece(m, h); err != nil {
			s.drop(m)
			return nil, err
		}
		if !h.More {
			s.whole(m)
			return m, nil
		}
		if len(s.parts) >= frame.MaxCalls && s.parts[h.ID] == nil {
			s.giveBack(m)
			return nil, &stream.Fault{Code: websocket.StatusPolicyViolation,
				Reason: "too many messages were begun"}
		}
		s.parts[h.ID] = m
		s.notePartial()
	}
}

// begin makes a call of its first header, with room for what it costs.
func (s *streamed) begin(h frame.Header) *message {
	m := &message{
		call: call{from: s.from, remote: s.remote}, id: h.ID, kind: h.Kind, began: time.Now(),
	}
	if int(h.Kind) >= len(s.of.kinds) || s.of.kinds[h.Kind].serve == nil {
		m.failed = refuse(http.StatusBadRequest, "there is no call of kind %d", h.Kind)
		return m
	}
	m.spare = s.of.kinds[h.Kind].spare
	if !s.door.bodies.take(callCost, m.spare) {
		m.failed = busy(tooManyBodies)
		return m
	}
	m.cost = callCost
	return m
}

// piece reads a piece of a message, or reads it away.
func (s *streamed) piece(m *message, h frame.Header) error {
	if m.failed == nil {
		if err := s.room(m, h); err != nil {
			s.refuse(m, err)
		}
	}
	if m.failed != nil {
		return s.conn.Skip(h.Size)
	}
	from := len(m.text)
	m.text = m.text[:from+h.Size]
	return s.conn.Read(m.text[from:])
}

// room makes room for a piece, before it is read, and for as much again when more follows.
func (s *streamed) room(m *message, h frame.Header) error {
	size, limit := int64(len(m.text)+h.Size), s.door.conf.MaxBody
	if size > limit {
		return tooLarge(limit)
	}
	had := int64(cap(m.text))
	if size <= had {
		return nil
	}
	want := size
	if h.More {
		want = min(max(size, 4*had), limit)
	}
	if !s.door.bodies.take(want-had, m.spare) {
		return busy(tooManyBodies)
	}
	m.body += want - had
	m.text = append(make([]byte, 0, want), m.text...)
	return nil
}

// whole makes a message ready to be served: there is room for what stands in it, and who called may
// leave.
func (s *streamed) whole(m *message) {
	s.came(m)
	if m.failed == nil {
		if err := s.door.parsed(&m.call, frame.Items(m.kind, m.text), m.spare); err != nil {
			s.refuse(m, err)
		}
	}
	m.ctx = s.ctx
	if m.kind == frame.Hold || m.kind == frame.Beat {
		m.ctx, m.leave = context.WithCancel(s.ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waits[m.id] = m
	}
}

// drop forgets a message that did not all come.
func (s *streamed) drop(m *message) {
	s.came(m)
	s.giveBack(m)
}

// came takes a message out of those that are coming.
func (s *streamed) came(m *message) {
	if s.parts[m.id] == m {
		delete(s.parts, m.id)
		s.notePartial()
	}
}

// notePartial notes since when messages are coming.
func (s *streamed) notePartial() {
	var oldest *time.Time
	for _, m := range s.parts {
		if oldest == nil || m.began.Before(*oldest) {
			oldest = &m.began
		}
	}
	s.partial.Store(oldest)
}

// leave ends a call for whose answer nobody waits.
func (s *streamed) leave(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.waits[id]; m != nil {
		m.leave()
		delete(s.waits, id)
	}
}

// left ends what is left of a call that was answered. Its id may be another one's by now, of a
// caller that did not wait for this answer.
func (s *streamed) left(m *message) {
	if m.leave == nil {
		return
	}
	m.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits[m.id] == m {
		delete(s.waits, m.id)
	}
}

// refuse drops what came of a message.
func (s *streamed) refuse(m *message, why error) {
	s.door.letGo(&m.call)
	m.text, m.failed = nil, why
}

// giveBack ends a call.
func (s *streamed) giveBack(m *message) {
	s.door.giveBack(&m.call)
	s.door.bodies.give(m.cost)
	m.cost = 0
}

// answer serves a call and answers it.
func (s *streamed) answer(m *message) {
	s.busy.Add(1)
	defer s.busy.Add(-1)
	defer s.giveBack(m)
	defer s.left(m)
	f := &framed{pattern: "?"} // a kind that there is not
	if int(m.kind) < len(s.of.kinds) {
		f = &s.of.kinds[m.kind]
	}
	status := http.StatusInternalServerError
	if f.count != nil {
		start := time.Now()
		f.count.begin()
		defer func() {
			f.count.done(status, time.Since(start))
			s.door.refused(&m.call, status, f.pattern)
		}()
	}
	defer func() {
		if p := recover(); p != nil {
			refused := doubt(http.StatusInternalServerError, ownFault)
			s.door.panicked(refused, f.pattern, p)
			status = s.fail(m, refused)
		}
	}()
	done, err := s.try(m, f)
	if err != nil {
		done = s.fail(m, s.door.refusal(f.pattern, err))
	}
	status = done
}

// try serves a call, in the order in which HTTP looks at one.
func (s *streamed) try(m *message, f *framed) (status int, err error) {
	if f.pattern != "" && f.serve != nil {
		if m.who, err = s.admitted(f.need); err != nil {
			return 0, err
		}
	}
	if m.failed != nil {
		return 0, m.failed
	}
	if f.pattern != "" {
		if needsStore(f.path) {
			if err := s.door.conf.Reach(); err != nil {
				return 0, err
			}
		}
		if err := s.door.within(s.ask, m.who, f.about); err != nil {
			return 0, err
		}
	}
	return f.serve(s, m)
}

// admitted says who calls, or why it may not: by the tokens as they are now.
func (s *streamed) admitted(need right) (principal, error) {
	now := s.door.tokens.Load()
	if k := s.known.Load(); k.tokens == now {
		return k.who, k.who.may(need)
	}
	who, err := s.door.admit(s.ask, need)
	if err == nil {
		s.known.Store(&known{now, who})
	}
	return who, err
}

// fail answers with a problem, as HTTP does.
func (s *streamed) fail(m *message, p *problem) (status int) {
	r := frame.Refused{Status: p.Status, Problem: append(encoded(p), '\n')}
	if p.header.Get("Retry-After") != "" {
		r.RetryAfter = time.Second
	}
	s.send(m, frame.Refusal, stream.Bytes(frame.AppendRefused(nil, r)))
	return p.Status
}

// send answers. A caller that is gone needs no answer.
func (s *streamed) send(m *message, kind frame.Kind, body stream.Body) {
	if _, err := s.conn.Send(s.ctx, m.id, kind, body); err != nil {
		s.end(err)
	}
}

func (s *streamed) submit(m *message) (int, error) {
	tasks, err := frame.ParseSubmissions(m.text)
	if err != nil {
		return 0, err
	}
	receipts, err := s.of.hot.submitTasks(m.ctx, &m.call, m.text, tasks)
	if err != nil {
		return 0, err
	}
	s.send(m, frame.Answer, func(b []byte, _ int) ([]byte, []wire.Cut) {
		return frame.AppendReceipts(b, receipts), nil
	})
	return http.StatusCreated, nil
}

func (s *streamed) hold(m *message) (int, error) {
	request, err := frame.ParseHold(m.text)
	if err != nil {
		return 0, err
	}
	m.text = nil
	return http.StatusOK, s.of.hot.holdTasks(m.ctx, &m.call, request, func(held task.HoldAnswer) {
		now := time.Now()
		s.send(m, frame.Answer, func(b []byte, long int) ([]byte, []wire.Cut) {
			return frame.CutHandouts(b, frame.Handouts{HoldAnswer: held, Now: now}, long)
		})
	})
}

func (s *streamed) report(m *message) (int, error) {
	worker, given, err := frame.ParseReports(m.text)
	if err == nil { // how many children there are is known once they are read
		err = s.door.parsed(&m.call, childrenIn(given), m.spare)
	}
	if err != nil {
		return 0, err
	}
	answers, err := s.of.hot.reportTasks(m.ctx, &m.call, m.text, worker, given)
	if err != nil {
		return 0, err
	}
	s.send(m, frame.Answer, func(b []byte, _ int) ([]byte, []wire.Cut) {
		return frame.AppendAnswers(b, answers), nil
	})
	return http.StatusOK, nil
}

func (s *streamed) beat(m *message) (int, error) {
	beat, err := frame.ParseBeat(m.text)
	if err != nil {
		return 0, err
	}
	m.text = nil
	if err := s.of.hot.mayBeatAs(&m.call, "body.worker", beat.Worker); err != nil {
		return 0, err
	}
	told, err := s.of.hot.beatOf(m.ctx, &m.call, beat)
	if err != nil {
		return 0, err
	}
	s.send(m, frame.Answer, func(b []byte, _ int) ([]byte, []wire.Cut) {
		return wire.AppendBeatAnswer(b, told), nil
	})
	return http.StatusOK, nil
}

func (s *streamed) ping(m *message) (int, error) {
	s.send(m, frame.Answer, stream.None)
	return http.StatusOK, nil
}
