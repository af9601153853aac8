package recording

import (
	"slices"
	"time"
)

// Film is how a screen looked over time: of each row only its changes.
type Film struct {
	Width, Height int
	Rows          [][]Shot // of each row, oldest first; the first one is at 0
	Length        time.Duration
}

// Shot is how a row looks from a time on.
type Shot struct {
	At    time.Duration
	Cells []Cell
}

// Piece is what a program wrote until a time.
type Piece struct {
	At   time.Duration
	Text []byte
}

// NewFilm plays pieces, which are in the order of their times. What changes sooner than so long
// after the change before is shown with the next one; the end always is, and stands for hold.
func NewFilm(width, height int, pieces []Piece, least, hold time.Duration) *Film {
	f := &Film{Width: width, Height: height, Rows: make([][]Shot, height)}
	s := NewScreen(width, height)
	f.look(0, s)
	var last time.Duration
	for i, p := range pieces {
		_, _ = s.Write(p.Text) // a screen takes all
		if p.At-last < least && i < len(pieces)-1 {
			continue
		}
		last = p.At
		f.look(p.At, s)
	}
	f.Length = last + hold
	return f
}

// look keeps the rows that are not as they were.
func (f *Film) look(at time.Duration, s *Screen) {
	for i, row := range s.Rows() {
		shots := f.Rows[i]
		if n := len(shots); n > 0 && slices.Equal(shots[n-1].Cells, row) {
			continue
		}
		f.Rows[i] = append(shots, Shot{at, row})
	}
}
