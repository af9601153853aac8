package inprocess_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rotahq/rota/internal/inprocess"
)

func Example() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s of %s", r.Method, r.URL.Path, r.Host)
	})
	c := &http.Client{Transport: inprocess.New(handler)}
	answer, err := c.Get("http://here/v1/tasks")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	fmt.Println(answer.Status, string(text))
	// Output:
	// 200 OK GET /v1/tasks of here
}

// call makes one call of a handler, and reads its answer.
func call(
	t *testing.T, h http.HandlerFunc, method, body string,
) (answer *http.Response, text string, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(
		t.Context(), method, "http://here/path?q=1", strings.NewReader(body),
	)
	if err != nil {
		t.Fatal(err)
	}
	answer, err = inprocess.New(h).RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	return answer, string(b), err
}

func TestAHandlerSeesWhatItWouldOfANetwork(t *testing.T) {
	answer, text, err := call(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.RequestURI != "/path?q=1" || r.Host != "here" || r.FormValue("q") != "1" {
			t.Errorf("got %q, host %q, %v", r.RequestURI, r.Host, err)
		}
		w.Header().Set("Content-Length", "4")
		w.Header().Set("X-Kind", "one")
		w.WriteHeader(http.StatusProcessing)
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK)     // too late, as the next line
		w.Header().Set("X-Kind", "late") // is
		w.Write(body)
	}, http.MethodPut, "text")
	if err != nil || answer.StatusCode != http.StatusTeapot || text != "text" ||
		answer.Header.Get("X-Kind") != "one" || answer.ContentLength != 4 {
		t.Errorf("got %+v with %q, %v", answer, text, err)
	}
}

func TestAHandlerThatSaysNothingAnswersWell(t *testing.T) {
	answer, text, err := call(t, func(http.ResponseWriter, *http.Request) {}, http.MethodGet, "")
	if err != nil || answer.StatusCode != http.StatusOK || text != "" {
		t.Errorf("got %+v with %q, %v", answer, text, err)
	}
}

func TestAHandlerThatPanicsBreaksTheAnswerOff(t *testing.T) {
	_, text, err := call(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}, http.MethodGet, "")
	if text != "half" || err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("got %q, %v, want half of an answer and an error", text, err)
	}
}

func TestAnAnswerIsReadWhileItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, left := make(chan struct{}), make(chan error, 1)
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).Flush()
			<-next
			io.WriteString(w, "first\n")
			<-r.Context().Done()
			_, err := io.WriteString(w, "second\n")
			left <- err
		})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://here/", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := inprocess.New(h).RoundTrip(r) // the head is there before anything follows
		if err != nil {
			t.Fatal(err)
		}
		close(next)
		line, err := bufio.NewReader(answer.Body).ReadString('\n')
		if line != "first\n" || err != nil {
			t.Errorf("read %q, %v", line, err)
		}
		answer.Body.Close()
		if err := <-left; err == nil {
			t.Error("nobody reads any more, and the handler does not notice")
		}
	})
}

func TestReadingAnAnswerEndsWithTheCallsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("enough")
		ctx, leave := context.WithCancelCause(t.Context())
		deaf := make(chan struct{})
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "x")
			<-deaf // it looks at no context
		})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://here/", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := inprocess.New(h).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		go func() {
			synctest.Wait()
			leave(why)
		}()
		if text, err := io.ReadAll(answer.Body); string(text) != "x" || !errors.Is(err, why) {
			t.Errorf("read %q, %v, want x and %v", text, err, why)
		}
		close(deaf)
	})
}

func TestACallEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("enough")
		ctx, leave := context.WithCancelCause(t.Context())
		left := make(chan struct{})
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			io.WriteString(w, "too late")
			close(left)
		})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://here/", nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			synctest.Wait()
			leave(why)
		}()
		if _, err := inprocess.New(h).RoundTrip(r); !errors.Is(err, why) {
			t.Errorf("got %v, want %v", err, why)
		}
		<-left // and the handler is not held up by what nobody reads
	})
}
