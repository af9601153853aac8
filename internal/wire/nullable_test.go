package wire

import (
	"errors"
	"testing"
	"time"
)

type nullableBody struct {
	Most  Nullable[int]        `json:"most"`
	Lasts Nullable[strictSpan] `json:"lasts"`
	Limit limited              `json:"limit"`
}

// limited is how a body has one that says more of itself.
type limited struct{ Nullable[int] }

func TestNullIsGivenAndAbsenceIsNot(t *testing.T) {
	for body, want := range map[string]nullableBody{
		`{}`:            {},
		`{"most":null}`: {Most: Nullable[int]{Given: true}},
		`{"most": null , "lasts":null}`: {
			Most: Nullable[int]{Given: true}, Lasts: Nullable[strictSpan]{Given: true},
		},
		`{"most":0}`:     {Most: Nullable[int]{Given: true}},
		`{"most":-7}`:    {Most: Nullable[int]{true, -7}},
		`{"limit":null}`: {Limit: limited{Nullable[int]{Given: true}}},
		`{"limit":3}`:    {Limit: limited{Nullable[int]{true, 3}}},
		`{"lasts":"1m"}`: {Lasts: Nullable[strictSpan]{true, strictSpan{time.Minute}}},
	} {
		var got nullableBody
		if err := Strict([]byte(body), &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", body, got, err, want)
		}
		number, span := 9, strictSpan{time.Hour}
		got.Most.Set(&number)
		got.Lasts.Set(&span)
		if number == 9 == got.Most.Given || (span.Duration == time.Hour) == got.Lasts.Given {
			t.Errorf("%s sets %d and %v", body, number, span)
		}
	}
	for body, want := range map[string]string{
		`{"most":"1"}`:           "expected an integer in range",
		`{"most":1.5}`:           "expected an integer in range",
		`{"most":nul}`:           "at byte 8: expected a value",
		`{"most":nullx}`:         `at byte 12: expected , or }`,
		`{"most":{}}`:            "expected an integer in range",
		`{"lasts":1}`:            "expected a string",
		`{"lasts":"x"}`:          `time: invalid duration "x"`,
		`{"limit":true}`:         "expected an integer in range",
		`{"most":1,"most":null}`: "comes twice",
	} {
		var got nullableBody
		var fault *Error
		err := Strict([]byte(body), &got)
		if !errors.As(err, &fault) || fault.Fields[0].Message != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
