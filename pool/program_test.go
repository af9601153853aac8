package pool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// order is a request of these tests to their program, which is this binary (TestMain).
type order struct {
	Do   string
	N    int
	Text string
	Addr string // where the test listens: the process connects when it has begun
}

func childMain() {
	if addr := os.Getenv("POOL_GRANDCHILD"); addr != "" {
		arrive(addr)
	}
	if os.Getenv("POOL_CHILD_ENDS") != "" {
		os.Exit(5)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 8<<20)
	for in.Scan() {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(4)
		}
		o.obey()
	}
	if os.Getenv("POOL_CHILD_STAYS") != "" {
		arrive("")
	}
}

func (o order) obey() {
	switch o.Do {
	case "echo":
		fmt.Printf("{\"result\": %d}\n", o.N)
	case "number":
		fmt.Printf("{\"result\": %s}\n", os.Getenv("POOL_CHILD"))
	case "say":
		fmt.Print(o.Text)
	case "sign and die":
		f, err := os.OpenFile(o.Text, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		f.WriteString("x")
		os.Exit(3)
	case "grumble":
		fmt.Fprint(os.Stderr, o.Text)
		fmt.Println(`{"result": null}`)
	case "mutter": // something more, when the test hangs up
		fmt.Println(`{"result": null}`)
		go func() {
			c, err := net.Dial("tcp", o.Addr)
			if err != nil {
				panic(err)
			}
			io.Copy(io.Discard, c)
			fmt.Println(`{"result": 0}`)
		}()
	case "long":
		fmt.Printf("{\"result\": \"%s\"}\n", strings.Repeat("x", o.N))
	case "die":
		fmt.Fprint(os.Stderr, "first words ", strings.Repeat(".", 1<<20), " last words\n")
		os.Exit(3)
	case "arrive":
		arrive(o.Addr)
	case "employ": // a child of its own, for ever
		c, err := Command{Argv: os.Args[:1]}.Start(0)
		if err != nil {
			panic(err)
		}
		c.Call(context.Background(), order{Do: "arrive", Addr: o.Addr}, nil)
	case "breed": // a process of the same group that holds our pipes, and never ends
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "POOL_GRANDCHILD="+o.Addr)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			panic(err)
		}
		fmt.Println(`{"result": null}`)
	}
}

// arrive shows the test that this process lives, and stays for ever.
func arrive(addr string) {
	if addr != "" {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			panic(err)
		}
		defer c.Close()
	}
	time.Sleep(time.Hour)
}

// arrivals is where processes show that they live.
type arrivals struct{ net.Listener }

func newArrivals(t *testing.T) arrivals {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return arrivals{l}
}

func (a arrivals) addr() string { return a.Addr().String() }

// next waits for a process and gives a function that waits for its end.
func (a arrivals) next(t *testing.T) (gone func()) {
	c, err := a.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		defer c.Close()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && err == nil {
			t.Error("a process spoke instead of dying")
		}
	}
}

// program is this binary as a Command.
func program(t testing.TB) Command {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Command{Argv: []string{self}, Grace: time.Minute}
}

func startChild(t testing.TB, c Command) *Child {
	child, err := c.Start(7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Close(); err != nil {
			t.Error(err)
		}
	})
	return child
}
