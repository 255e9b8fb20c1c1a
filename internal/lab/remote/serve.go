// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"sync"
	"syscall"
)

// Serve starts with s the programs that the near end asks for, until the line ends. Programs that then still
// run are killed.
func Serve(rw io.ReadWriter, s Starter) error {
	host := server{starter: s, out: line{w: rw}, running: map[uint32]*served{}}
	defer host.killAll()
	decoder := json.NewDecoder(rw)
	for {
		var m message
		if err := decoder.Decode(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		host.take(m)
	}
}

type server struct {
	starter Starter
	out     line

	mu      sync.Mutex
	running map[uint32]*served
}

// served is a program that runs here for the near end.
type served struct {
	Program
	in *io.PipeWriter // nil when it reads nothing
}

func (h *server) take(m message) {
	if m.Argv != nil {
		h.start(m)
		return
	}
	h.mu.Lock()
	p := h.running[m.ID]
	h.mu.Unlock()
	if p == nil {
		return // it has ended meanwhile
	}
	if m.Signal != 0 {
		p.Signal(m.Signal)
	}
	if p.in == nil {
		return
	}
	// A program that reads nothing more has its pipe closed behind it.
	if len(m.In) > 0 {
		p.in.Write(m.In) //nolint:errcheck
	}
	if m.EOF {
		p.in.Close()
	}
}

func (h *server) start(m message) {
	p := &served{}
	var in io.Reader
	var read *io.PipeReader
	if !m.EOF {
		read, p.in = io.Pipe()
		in = read
	}
	out := writer(func(b []byte) error { return h.out.send(message{ID: m.ID, Out: b}) })
	errs := writer(func(b []byte) error { return h.out.send(message{ID: m.ID, Err: b}) })
	var err error
	if p.Program, err = h.starter.Start(m.Argv, in, out, errs); err != nil {
		h.out.send(message{ID: m.ID, Ended: true, Failed: err.Error()}) //nolint:errcheck // the decoder meets the end of the line
		return
	}
	h.mu.Lock()
	h.running[m.ID] = p
	h.mu.Unlock()
	go func() {
		code, err := p.Wait()
		if read != nil {
			read.Close()
		}
		h.mu.Lock()
		delete(h.running, m.ID)
		h.mu.Unlock()
		end := message{ID: m.ID, Ended: true, Code: code}
		if err != nil {
			end.Failed = err.Error()
		}
		h.out.send(end) //nolint:errcheck // the decoder meets the end of the line
	}()
}

func (h *server) killAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.running {
		p.Signal(syscall.SIGKILL)
	}
}

// writer sends what is written in pieces.
type writer func([]byte) error

func (w writer) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), piece)
		if err := w(rest[:n]); err != nil {
			return len(b) - len(rest), err
		}
		rest = rest[n:]
	}
	return len(b), nil
}

// Local starts programs on this machine, each in a process group of its own.
type Local struct{}

type local struct{ cmd *exec.Cmd }

// Start starts a program here.
func (Local) Start(argv []string, in io.Reader, out, err io.Writer) (Program, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, err
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if in != nil {
		// A pipe of its own: Wait would else wait for a reader of the input that nobody feeds any more.
		pipe, failure := cmd.StdinPipe()
		if failure != nil {
			return nil, failure
		}
		go func() {
			io.Copy(pipe, in) //nolint:errcheck // the program may read only what it wants
			pipe.Close()
		}()
	}
	if failure := cmd.Start(); failure != nil {
		return nil, failure
	}
	return local{cmd}, nil
}

func (p local) Wait() (int, error) {
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

func (p local) Signal(s syscall.Signal) {
	syscall.Kill(-p.cmd.Process.Pid, s) //nolint:errcheck // it may have ended by itself
}
