package recording

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestScreenShowsWhatATerminalShows(t *testing.T) {
	for _, x := range []struct{ name, wrote, want string }{
		{"lines", "one\r\ntwo\r\n", "one\ntwo\n"},
		{"a line feed keeps the column", "ab\ncd", "ab\n  cd\n"},
		{"a line that is drawn again", "12 %\r\x1b[K34\r\n", "34\n"},
		{"what is longer shows beyond", "12345\rab", "ab345\n"},
		{"erased up to here", "12345\b\b\x1b[1K", "    5\n"},
		{"erased as a whole", "12345\x1b[2Kx", "     x\n"},
		{"a row is full", "12345678ab", "12345678\nab\n"},
		{"a full row ends once", "12345678\r\nab", "12345678\nab\n"},
		{"rows go up", "1\r\n2\r\n3\r\n4\r\n5", "3\n4\n5\n"},
		{"wide characters", "値班ab", "値班ab\n"},
		{"a wide one does not stand on the edge", "1234567値", "1234567\n値\n"},
		{"what is not known is left out", "\x1b[?25l\x1b]0;title\x07a\x1b[3Cb\x1b[m", "ab\n"},
		{"colours are no text", "\x1b[32m━━\x1b[m\x1b[2m━\x1b[0m 66%", "━━━ 66%\n"},
	} {
		t.Run(x.name, func(t *testing.T) {
			whole, cut := NewScreen(8, 3), NewScreen(8, 3)
			_, _ = whole.Write([]byte(x.wrote))
			if got := whole.String(); got != x.want {
				t.Errorf("it shows\n%s\nnot\n%s", got, x.want)
			}
			for i := range len(x.wrote) {
				_, _ = cut.Write([]byte(x.wrote[i : i+1]))
			}
			if got := cut.String(); got != x.want {
				t.Errorf("byte by byte it shows\n%s\nnot\n%s", got, x.want)
			}
		})
	}
}

func TestPensAreKept(t *testing.T) {
	s := NewScreen(10, 1)
	_, _ = s.Write([]byte("a\x1b[32mb\x1b[1;2mc\x1b[22md\x1b[91me\x1b[39mf\x1b[33m\x1b[mg"))
	want := []Pen{{}, {Colour: 32}, {32, true, true}, {Colour: 32}, {Colour: 31}, {}, {}}
	for i, pen := range want {
		if got := s.Rows()[0][i].Pen; got != pen {
			t.Errorf("%q has %+v, want %+v", s.Rows()[0][i].Text, got, pen)
		}
	}
}

func TestFilmKeepsWhatChanges(t *testing.T) {
	f := NewFilm(10, 2, []Piece{
		{1 * time.Second, []byte("a\r\n1 %")},
		{1010 * time.Millisecond, []byte("\r2 %")}, // too soon: shown with the next one
		{2 * time.Second, []byte("\r3 %")},
		{2010 * time.Millisecond, []byte("\r4 %")}, // the end is always shown
	}, 100*time.Millisecond, 3*time.Second)
	texts := func(row int) (all []string) {
		for _, shot := range f.Rows[row] {
			all = append(all, shot.At.String()+" "+strings.TrimRight(textOf(shot.Cells), " "))
		}
		return all
	}
	if got := strings.Join(texts(0), ", "); got != "0s , 1s a" {
		t.Errorf("the first row: %s", got)
	}
	if got := strings.Join(texts(1), ", "); got != "0s , 1s 1 %, 2s 3 %, 2.01s 4 %" {
		t.Errorf("the second row: %s", got)
	}
	if f.Length != 5010*time.Millisecond {
		t.Errorf("it lasts %v", f.Length)
	}
}

func TestPictureIsTextThatShowsItsEndWithoutAnimation(t *testing.T) {
	f := NewFilm(20, 3, []Piece{
		{time.Second, []byte("<b>&\x1b[32mgreen\x1b[m\r\n50 %")},
		{2 * time.Second, []byte("\r100 %")},
	}, 0, 2*time.Second)
	svg := string(f.SVG("a & b"))
	wellFormed(t, []byte(svg))
	for _, want := range []string{
		"<title>a &amp; b</title>", "&lt;b&gt;&amp;</text>", `class="c32" textLength="42">green`,
		// Its end stands where it is seen, what came before left of it.
		`<text x="14" y="13" textLength="42">100 %</text>`,
		`<text x="-182" y="13" textLength="33.6">50 %`,
		"@keyframes k1{0%{transform:translate(392px)}25%{transform:translate(196px)}" +
			"50%{transform:translate(0px)}100%{transform:none}}",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture has no %q:\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "k2") {
		t.Error("a row that stays empty is in the picture")
	}
}

func wellFormed(t *testing.T, b []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
}
