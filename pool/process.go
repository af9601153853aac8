package pool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// process is one life of a child.
type process struct {
	cmd   *exec.Cmd
	in    *os.File // its standard input
	out   *answers // its standard output
	words words    // what it wrote to its standard error since the last request was given to it
	ended chan struct{}

	mu     sync.Mutex
	reaped bool // its number may belong to another process now
}

// start starts the program. Whoever starts it ends it with stop.
func (c *Command) start() (*process, error) {
	var in, out, errs pipe
	closeAll := func() { in.close(); out.close(); errs.close() }
	if err := errors.Join(in.open(), out.open(), errs.open()); err != nil {
		closeAll()
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in.r, out.w, errs.w
	ownGroup(cmd)
	p := &process{cmd: cmd, in: in.w, out: newAnswers(out.r, c.MaxLine), ended: make(chan struct{})}
	started := make(chan error)
	go p.live(started, errs.r)
	if err := <-started; err != nil {
		closeAll()
		return nil, err
	}
	in.r.Close()
	out.w.Close()
	errs.w.Close()
	if err := p.confine(c); err != nil {
		p.stop(0)
		return nil, fmt.Errorf("set limits: %w", err)
	}
	return p, nil
}

// drain is how long output is awaited from what a dead program left behind outside of its group.
const drain = time.Second

// live starts the process, and takes it from the system as soon as it ends, and what is left of its
// group with it. stop waits for it. The thread that starts a process must not end before it
// (ownGroup), as that of a caller might; this one waits anyway.
func (p *process) live(started chan<- error, stderr *os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	err := p.cmd.Start()
	if started <- err; err != nil {
		return
	}
	var reading sync.WaitGroup
	reading.Go(func() { io.Copy(&p.words, stderr) }) // ends with the pipe, or at the deadline below
	early := awaitEnd(p.cmd.Process)                 // then its number is nobody else's yet
	if !early {
		p.cmd.Wait() // its error repeats what ProcessState says
	}
	p.mu.Lock()
	p.reaped = true
	killGroup(p.cmd.Process)
	p.mu.Unlock()
	if early {
		p.cmd.Wait()
	}
	end := time.Now().Add(drain)
	stderr.SetReadDeadline(end)
	p.out.file.SetReadDeadline(end)
	p.in.SetWriteDeadline(end)
	reading.Wait()
	stderr.Close()
}

// exchange gives the process a request and returns the line that it says. given says whether the
// request may have reached it. The process is killed when ctx ends; after an error it is of no more
// use.
func (p *process) exchange(
	ctx context.Context, line []byte, cpu time.Duration,
) (said []byte, given bool, err error) {
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { p.kill(); close(killed) })
	defer func() {
		if !stop() {
			<-killed // otherwise it could meet the next request
		}
	}()
	if p.gone() {
		return nil, false, os.ErrProcessDone // though others may hold its pipes
	}
	if err := p.out.silent(); err != nil {
		return nil, false, err
	}
	if cpu > 0 {
		if err := p.limitCPU(cpu); err != nil {
			return nil, false, fmt.Errorf("limit processor time: %w", err)
		}
	}
	p.words.forget()
	if _, err := p.in.Write(line); err != nil {
		return nil, false, err // it was not given the end of the line
	}
	said, err = p.out.next()
	return said, true, err
}

// gone says whether the process has ended.
func (p *process) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reaped
}

// kill kills the process and its group, and lets nobody wait for its pipes, whoever else holds
// them.
func (p *process) kill() {
	p.mu.Lock()
	if !p.reaped {
		killGroup(p.cmd.Process)
	}
	p.mu.Unlock()
	past := time.Unix(1, 0)
	p.in.SetWriteDeadline(past)
	p.out.file.SetReadDeadline(past)
}

// stop ends the process, which has a grace to do so by itself, and frees all that it held.
func (p *process) stop(grace time.Duration) (byItself bool) {
	p.in.Close()
	late := time.AfterFunc(grace, p.kill)
	<-p.ended
	p.out.file.Close()
	return late.Stop()
}

// how says how the process ended, with its last words.
func (p *process) how() string { return p.cmd.ProcessState.String() + p.words.String() }

// answers reads what a process says, line by line.
type answers struct {
	file  *os.File
	buf   *bufio.Reader
	limit int // of a line
}

func newAnswers(file *os.File, limit int) *answers {
	return &answers{file: file, buf: bufio.NewReader(file), limit: limit}
}

// next is the next line, and the last for now: more would answer a request that nobody has made.
func (a *answers) next() ([]byte, error) {
	for line := []byte(nil); ; {
		piece, err := a.buf.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > a.limit:
			return nil, fmt.Errorf("answer: %w", ErrLine)
		case err == nil && a.buf.Buffered() == 0:
			return line, nil
		case err == nil:
			return nil, fmt.Errorf("%w: several lines for one request", ErrAnswer)
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

// silent is nil when the process lives and has said nothing since its last answer.
func (a *answers) silent() error {
	var said [80]byte
	n, err := readNow(a.file, said[:])
	if n > 0 {
		return fmt.Errorf("%w: said %q unasked", ErrAnswer, said[:n])
	}
	return err
}

// words keeps the beginning and the end of what is written to it: one language says first what
// killed it, the other last.
type words struct {
	mu          sync.Mutex
	first, last []byte
}

// wordsSize is how much of either, in bytes.
const wordsSize = 1 << 10

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(b), wordsSize-len(w.first))
	w.first = append(w.first, b[:n]...)
	w.last = append(w.last, b[n:]...)
	if excess := len(w.last) - wordsSize; excess > 0 {
		w.last = append(w.last[:0], w.last[excess:]...)
	}
	return len(b), nil
}

// forget begins anew.
func (w *words) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first, w.last = w.first[:0], w.last[:0]
}

// String is the end of an error's text.
func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(w.first)+string(w.last), "?"))
	if text == "" {
		return ""
	}
	return ": " + text
}

// pipe is a pipe that may not be open.
type pipe struct{ r, w *os.File }

func (p *pipe) open() (err error) {
	p.r, p.w, err = os.Pipe()
	return err
}

func (p *pipe) close() {
	p.r.Close() // of a nil file: an error that nobody misses
	p.w.Close()
}
