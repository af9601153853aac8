//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/task"
)

// A test starts its own binary as the service, so that it can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "service" {
		s := shop{charge: bankAt(os.Args[4])}
		fmt.Fprintln(os.Stderr, s.run(context.Background(), os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	os.Exit(pgtest.Main(m))
}

// bankAt is the bank that a test plays.
func bankAt(address string) func(context.Context, order) (bool, error) {
	return func(ctx context.Context, o order) (bool, error) {
		r, err := http.NewRequestWithContext(ctx, "POST", address+"/"+url.PathEscape(o.ID), nil)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return false, err
		}
		answer.Body.Close()
		if answer.StatusCode >= 500 {
			return false, fmt.Errorf("the bank says %s", answer.Status)
		}
		return answer.StatusCode == http.StatusOK, nil
	}
}

// bank books each order once. The first request for every third order fails, after it was booked;
// every seventh order is refused.
type bank struct {
	t  *testing.T
	db *pgxpool.Pool

	mu     sync.Mutex
	booked map[string]int // how often each was asked for
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Path[1:]
	var customer, number int
	if _, err := fmt.Sscanf(id, "c%d-%d", &customer, &number); err != nil {
		b.t.Errorf("the bank is asked for %q", id)
	}
	var open int
	if err := b.db.QueryRow(r.Context(), `SELECT count(*) FROM orders o JOIN orders e USING (customer)
		WHERE o.id = $1 AND e.seq < o.seq AND e.open`, id).Scan(&open); err == nil && open > 0 {
		b.t.Errorf("%s is to be paid while %d earlier orders of its customer are open", id, open)
	}
	b.mu.Lock()
	b.booked[id]++
	first := b.booked[id] == 1
	b.mu.Unlock()
	switch {
	case first && number%3 == 1:
		w.WriteHeader(http.StatusInternalServerError)
	case refused(customer, number):
		w.WriteHeader(http.StatusPaymentRequired)
	}
}

// refused tells which orders the bank refuses.
func refused(customer, number int) bool { return (customer+number)%7 == 0 }

const customers, each, pieces = 6, 6, 100

// start runs the service as a process of its own, until the test kills it or ends.
func start(t *testing.T, dsn, listen, bank string) *exec.Cmd {
	t.Helper()
	service := exec.Command(os.Args[0], "service", dsn, listen, bank)
	service.Stderr = t.Output()
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		service.Process.Kill()
		service.Wait()
	})
	return service
}

// eventually waits until sql says true.
func eventually(t *testing.T, db *pgxpool.Pool, sql string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var yes bool
		if err := db.QueryRow(t.Context(), sql).Scan(&yes); err != nil {
			t.Fatal(err)
		}
		if yes {
			return
		}
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("not within two minutes: %s", sql)
		}
	}
}

// equal compares what a query counts.
func equal(t *testing.T, db *pgxpool.Pool, sql string, want int) {
	t.Helper()
	var got int
	if err := db.QueryRow(t.Context(), sql).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%s: %d, want %d", sql, got, want)
	}
}

// put places an order and says what the service answered; 0 = nothing.
func put(server, id, body string) (int, string) {
	r, err := http.NewRequest("PUT", server+"/orders/"+id, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// Customers place orders and repeat what was not answered, the bank fails, and the service is
// killed in the middle: every order is paid, packed and sent once, or refused once.
func TestEveryOrderIsHandledOnceThoughTheServiceIsKilled(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	db, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	schema, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), string(schema)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(),
		"INSERT INTO stock SELECT 'item-' || n, $1 FROM generate_series(0, 2) n", pieces); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := free.Addr().String()
	free.Close()
	server := "http://" + listen
	b := &bank{t: t, db: db, booked: map[string]int{}}
	till := httptest.NewServer(b)
	t.Cleanup(till.Close)

	service := start(t, dsn, listen, till.URL)
	var placing sync.WaitGroup
	for c := range customers {
		placing.Go(func() {
			for n := range each {
				for id := fmt.Sprintf("c%d-%d", c, n); t.Context().Err() == nil; {
					code, text := put(server, id,
						fmt.Sprintf(`{"customer":"c%d","item":"item-%d","cents":%d}`, c, n%3, 100+n))
					if code == http.StatusOK {
						break
					}
					if code == http.StatusUnprocessableEntity || code == http.StatusNotFound {
						t.Errorf("%s: %d %s", id, code, text)
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	eventually(t, db, "SELECT count(*) > 8 FROM orders WHERE state = 'sent'")
	if err := service.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	service.Wait()
	start(t, dsn, listen, till.URL)
	placing.Wait()
	eventually(t, db, fmt.Sprintf("SELECT count(*) = %d AND NOT bool_or(open) FROM orders",
		customers*each))

	sent := 0
	for c := range customers {
		for n := range each {
			state := "sent"
			if refused(c, n) {
				state = "refused"
			} else {
				sent++
			}
			equal(t, db, fmt.Sprintf(
				"SELECT count(*) FROM orders WHERE id = 'c%d-%d' AND state = '%s'", c, n, state), 1)
		}
	}
	equal(t, db, "SELECT sum(pieces) FROM stock", 3*pieces-sent)

	nodes, err := client.New(client.Config{Servers: []string{server + "/rota"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second has nothing to count
		fire, err := nodes.RunSchedule(t.Context(), "nightly")
		if err != nil {
			t.Fatal(err)
		}
		if v, err := nodes.Task(t.Context(), fire.Task.ID, time.Minute); err != nil ||
			v.State != task.Done {
			t.Errorf("the report's task is %v: %v", v.State, err)
		}
	}
	equal(t, db, "SELECT count(*) FROM reports", 2)
	equal(t, db, "SELECT sum(orders) FROM reports", sent)
	equal(t, db, "SELECT max(orders) FROM reports", sent)

	for _, x := range []struct {
		id, body string
		code     int
	}{
		{"c0-0", `{"customer":"c0","item":"item-0","cents":100}`, http.StatusOK}, // again
		{"x", `{"customer":"c0","item":"nothing","cents":100}`, http.StatusNotFound},
		{"x", `{"customer":"c0","item":"item-0","cents":0}`, http.StatusUnprocessableEntity},
		{"x", `{"customer":`, http.StatusUnprocessableEntity},
		{strings.Repeat("x", 300), `{"customer":"c","item":"item-0","cents":1}`,
			http.StatusUnprocessableEntity},
	} {
		if code, text := put(server, x.id, x.body); code != x.code {
			t.Errorf("%s %s: %d %s, want %d", x.id, x.body, code, text, x.code)
		}
	}
	equal(t, db, "SELECT count(*) FROM orders", customers*each)
}
