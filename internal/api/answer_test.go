package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// large is an Engine whose tasks have contexts of a size, made anew for each reading as by a store.
type large struct {
	Engine
	size    int
	loading atomic.Int64
	most    atomic.Int64 // readings at a time

	inMemory atomic.Int64 // contexts that were read
}

func (e *large) context() json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", e.size-2) + `"`)
}

func (e *large) Task(_ context.Context, id task.ID, _ time.Duration) (task.View, error) {
	e.most.Store(max(e.most.Load(), e.loading.Add(1)))
	defer e.loading.Add(-1)
	time.Sleep(time.Millisecond)
	if id == idOf(2) { // a small one
		return task.View{ID: id}, nil
	}
	return task.View{ID: id, Context: e.context()}, nil
}

// Contexts answers one, and notes how many that were read are in memory.
func (e *large) Contexts(
	context.Context, store.ContextsQuery,
) ([]task.StageContext, int32, error) {
	text := e.context()
	e.inMemory.Add(1)
	runtime.AddCleanup(&text[0], func(n *atomic.Int64) { n.Add(-1) }, &e.inMemory)
	return []task.StageContext{{Seq: -1, Context: text}}, 0, nil
}

// Hold hands out two tasks, as far as there is room.
func (e *large) Hold(_ context.Context, r task.HoldRequest) (a task.HoldAnswer, err error) {
	const most = 2 << 20 // how large it is the engine finds out by reading
	for i := range int32(2) {
		if r.Room(most) {
			r.Room(int64(e.size) - most)
			a.Tasks = append(a.Tasks, task.Handout{
				ID: idOf(i), Queue: "mail", Context: e.context(), Token: token(i),
			})
		}
	}
	return a, nil
}

// open asks and reads the header of the answer, nothing of its body.
func open(c net.Conn, request string) (*http.Response, error) {
	if _, err := io.WriteString(c, request); err != nil {
		return nil, err
	}
	// small: nothing of the body is buffered
	return http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
}

var (
	readTask = fmt.Sprintf("GET /v1/tasks/%v HTTP/1.1\r\nHost: localhost\r\n\r\n", idOf(1))
	holdTask = fmt.Sprintf(
		"POST /v1/tasks/hold HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		len(holdBody), holdBody,
	)
)

const holdBody = `{"worker":"w1","queues":["mail"]}`

// Of 40 readers of 1 MiB that never read on, as many are served as fit into three quarters of
// 8 MiB; the others are refused after a second; small tasks are read as ever; a worker still gets
// its task; and when the slow ones are cut, everything is as before.
func TestReadersThatDoNotReadTakeTheirShareAndNoMore(t *testing.T) {
	e := &large{Engine: newFake(), size: 1 << 20}
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, e, func(c *Config) { c.MaxAnswers = 8 << 20 })
		server, p := a.Server(), newPipes()
		var group sync.WaitGroup
		group.Go(func() { server.Serve(p) })
		var served, refused atomic.Int64
		var conns []net.Conn
		for range 40 {
			c := p.dial()
			conns = append(conns, c)
			group.Go(func() {
				start := time.Now()
				response, err := open(c, readTask)
				switch took := time.Since(start); {
				case err != nil:
					t.Error(err)
				case response.StatusCode == 200:
					served.Add(1)
				case response.StatusCode != 503 || response.Header.Get("Retry-After") == "" ||
					took < patience || took > 2*patience+time.Second/10:
					t.Errorf("%d after %v", response.StatusCode, took)
				default:
					refused.Add(1)
				}
			})
		}
		time.Sleep(3 * time.Second)
		if served.Load() != 6 || refused.Load() != 34 || a.large.taken.Load() > 6<<20 ||
			e.most.Load() > maxLoads {
			t.Errorf("%d served, %d refused, %d bytes taken, %d read at a time", served.Load(),
				refused.Load(), a.large.taken.Load(), e.most.Load())
		}
		small := p.dial()
		conns = append(conns, small)
		start := time.Now()
		response, err := open(small,
			strings.ReplaceAll(readTask, idOf(1).String(), idOf(2).String()))
		if err != nil || response.StatusCode != 200 || time.Since(start) > patience/10 {
			t.Errorf("a small task: %v, %v after %v", response, err, time.Since(start))
		}
		worker := p.dial()
		conns = append(conns, worker)
		response, err = open(worker, holdTask)
		if err != nil || response.StatusCode != 200 || a.large.taken.Load() != 7<<20 {
			// for its second task there is no room
			t.Errorf("a worker got %v, %v; %d bytes are taken", response, err, a.large.taken.Load())
		}
		time.Sleep(11 * time.Second)
		if taken := a.large.taken.Load(); taken != 0 {
			t.Errorf("%d bytes are taken after all were cut", taken)
		}
		if response, err := open(p.dial(), readTask); err != nil || response.StatusCode != 200 {
			t.Errorf("afterwards: %v, %v", response, err)
		}
		for _, c := range conns {
			c.Close()
		}
		server.Close()
		group.Wait()
		time.Sleep(time.Second)
	})
}

// While there is no room for them, no callers keep pages of contexts in memory by waiting.
func TestContextsThatWaitForRoomAreInNobodysMemory(t *testing.T) {
	e := &large{Engine: newFake(), size: 1 << 20}
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, e, func(c *Config) { c.MaxAnswers = 8 << 20 })
		a.large.taken.Store(a.large.limit)
		var group sync.WaitGroup
		for range 40 {
			group.Go(func() {
				response, text := ask(t, a, "GET /v1/tasks/"+idOf(1).String()+"/contexts", "")
				if response.StatusCode != 503 || !strings.Contains(text, "large answers") {
					t.Errorf("%d %.100s", response.StatusCode, text)
				}
			})
		}
		time.Sleep(patience / 2) // all of them wait
		for i := 0; i < 100 && e.inMemory.Load() > maxLoads; i++ {
			runtime.GC() // what is not reachable is noted soon after
		}
		if n := e.inMemory.Load(); n > maxLoads {
			t.Errorf("%d pages are in memory", n)
		}
		group.Wait()
		a.large.taken.Store(0)
		if response, text := ask(
			t, a, "GET /v1/tasks/"+idOf(1).String()+"/contexts", "",
		); response.StatusCode != 200 || len(text) < e.size || a.large.taken.Load() != 0 {
			t.Errorf("%d, %d bytes; %d are taken afterwards", response.StatusCode, len(text),
				a.large.taken.Load())
		}
	})
}

func TestHoldForWhichThereIsNoRoomIsRefusedUnrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, &large{Engine: newFake(), size: 1 << 20}, func(c *Config) {
			c.MaxAnswers = 8 << 20
		})
		a.large.taken.Store(7 << 20)
		start := time.Now()
		response, text := ask(t, a, "POST /v1/tasks/hold", holdBody)
		if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" ||
			!strings.Contains(text, `"outcome":"unchanged"`) {
			t.Errorf("%d %s", response.StatusCode, text)
		}
		if took := time.Since(start); took != patience || a.large.taken.Load() != 7<<20 {
			t.Errorf("after %v %d bytes are taken", took, a.large.taken.Load())
		}
	})
}

func TestWhatIsLargerThanTheBudgetIsReadAlone(t *testing.T) {
	e := &large{Engine: newFake(), size: 3 << 20}
	a := newAPI(t, e, func(c *Config) { c.MaxAnswers = 2 << 20 })
	for range 2 {
		if response, text := ask(
			t, a, "GET /v1/tasks/"+idOf(1).String(), "",
		); response.StatusCode != 200 || len(text) < e.size {
			t.Errorf("%d, %d bytes", response.StatusCode, len(text))
		}
	}
	if response, text := ask(
		t, a, "POST /v1/tasks/hold", holdBody,
	); response.StatusCode != 200 || strings.Count(text, `"id"`) != 1 {
		t.Errorf("%d, %d tasks, want one", response.StatusCode, strings.Count(text, `"id"`))
	}
	if a.large.taken.Load() != 0 {
		t.Errorf("%d bytes are taken afterwards", a.large.taken.Load())
	}
}

func TestLongPagesTakeTheirShareToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, newFake(), nil)
		a.large.taken.Store(a.large.limit * 3 / 4)
		for target, want := range map[string]int{"/v1/tasks": 200, "/v1/tasks?limit=128": 200,
			"/v1/tasks?limit=129": 503, "/v1/tasks?l%69mit=129": 503,
			"/v1/tasks?limit=1001": 422} {
			if response, text := ask(t, a, "GET "+target, ""); response.StatusCode != want {
				t.Errorf("%s: %d %s", target, response.StatusCode, text)
			}
		}
		a.large.taken.Store(0)
		if response, text := ask(
			t, a, "GET /v1/tasks?limit=1000", "",
		); response.StatusCode != 200 || a.large.taken.Load() != 0 {
			t.Errorf("%d %s; %d bytes are taken afterwards", response.StatusCode, text,
				a.large.taken.Load())
		}
	})
}

// The same with real sockets, real sizes, and the memory that is really used.
func TestHundredSlowReadersOfALargeTaskFitIntoMemory(t *testing.T) {
	e := &large{Engine: newFake(), size: 16 << 20}
	// who is served keeps its share, however long all take
	a := newAPI(t, e, func(c *Config) { c.AnswerWithin = time.Hour })
	server := a.Server()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving, reading sync.WaitGroup
	serving.Go(func() { server.Serve(l) })
	var served atomic.Int64
	conns := make([]net.Conn, 100)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		reading.Go(func() {
			response, err := open(conns[i], readTask)
			switch {
			case err != nil:
				t.Error(err)
			case response.StatusCode == 200:
				served.Add(1)
			case response.StatusCode != 503:
				t.Error(response.Status)
			}
		})
	}
	reading.Wait()
	if n := served.Load(); n == 0 || n > 96/16 {
		t.Errorf("%d are served at a time", n)
	}
	if used := heap(); used > 200<<20 {
		t.Errorf("%d MiB are in use", used>>20)
	}
	for _, c := range conns {
		c.Close()
	}
	server.Close()
	serving.Wait()
}
