package frame

import (
	"encoding/binary"
	"fmt"
)

// Protocol is the name of the WebSocket subprotocol.
const Protocol = "rota.v1"

// Path is where a node takes streams.
const Path = "/v1/stream"

const (
	// HeaderSize is the length of a header in bytes.
	HeaderSize = 9
	// MaxPiece is the longest piece of a body in bytes.
	MaxPiece = 64 << 10
	// MaxCalls is how many requests of one stream a node has under way at a time, those included
	// that have not all arrived. It reads on when one is answered.
	MaxCalls = 64
)

// Kind is what a message is about.
type Kind uint8

const (
	Submit Kind = 1 + iota // POST /v1/tasks
	Hold                   // POST /v1/tasks/hold
	Report                 // POST /v1/tasks/report
	Beat                   // POST /v1/workers/{worker}/beat
	Ping                   // asks whether the other end is there; no body
	Leave                  // nobody waits for the answer to the request of this id; no body
)

const (
	Answer  Kind = 16 + iota // to the request of this id
	Refusal                  // the same, if it was refused: see AppendRefusal
)

// more is the bit beside the kind that says that another piece follows.
const more = 0x80

// Header stands before each piece.
type Header struct {
	Size int    // of the piece, in bytes
	ID   uint32 // of the request
	Kind Kind
	More bool // another piece of this message follows
}

// AppendHeader appends a header.
func AppendHeader(b []byte, h Header) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(h.Size))
	b = binary.BigEndian.AppendUint32(b, h.ID)
	kind := byte(h.Kind)
	if h.More {
		kind |= more
	}
	return append(b, kind)
}

// ParseHeader reads a header of HeaderSize bytes.
func ParseHeader(b []byte) (Header, error) {
	h := Header{
		ID: binary.BigEndian.Uint32(b[4:]), Kind: Kind(b[8] &^ more), More: b[8]&more != 0,
	}
	size := binary.BigEndian.Uint32(b)
	if size > MaxPiece {
		return h, fmt.Errorf("a piece of %d bytes: there are at most %d", size, MaxPiece)
	}
	h.Size = int(size)
	return h, nil
}
