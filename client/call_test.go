package client

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

func TestMemoryIsNotTakenAtTheWordOfAServer(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	body := io.NopCloser(strings.NewReader("{}"))
	b, err := readAll(&http.Response{ContentLength: maxAnswer, Body: body})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > maxAnswer/2 {
		t.Errorf("%d bytes were taken for an answer of %d (%v)", took, len(b), err)
	}
}
