// SPDX-License-Identifier: Apache-2.0

// Package remote runs programs at the other end of a line: in a machine of the lab
// that has a kernel of its own and is reached by nothing but a serial port, or in the
// process that holds that port.
//
// Both ends write lines of JSON, one message each. A message says by a number which
// program it is about; any number of programs run at the same time.
package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
)

// message is one line. Towards the far end: Argv starts a program, In feeds it (EOF ends its input), Signal
// is sent to it. Back: Out and Err are what it wrote; Ended says that it is over, with Code or with Failed.
type message struct {
	ID     uint32         `json:"id"`
	Argv   []string       `json:"argv,omitempty"`
	In     []byte         `json:"in,omitempty"`
	EOF    bool           `json:"eof,omitempty"`
	Signal syscall.Signal `json:"signal,omitempty"`
	Out    []byte         `json:"out,omitempty"`
	Err    []byte         `json:"err,omitempty"`
	Ended  bool           `json:"ended,omitempty"`
	Code   int            `json:"code,omitempty"`
	Failed string         `json:"failed,omitempty"`
}

// piece is how many bytes of a program's output are told at most at once: with base64 they fit the 4 KiB that the
// kernel buffers for a terminal.
const piece = 2048

// Program is what runs at the other end.
type Program interface {
	// Wait returns the exit code (128 + number for a signal), or why there is none. Afterwards all output has been written.
	Wait() (code int, err error)
	Signal(syscall.Signal)
}

// Starter starts programs: a Line those at its far end, Local those of this machine.
type Starter interface {
	// Start starts a program that reads in, nil for nothing, and writes out and err.
	Start(argv []string, in io.Reader, out, err io.Writer) (Program, error)
}

// line writes messages, one at a time.
type line struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *line) send(m message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.w.Write(append(text, '\n'))
	return err
}

// pass sends all that is read from r, wrapped by wrap.
func (l *line) pass(r io.Reader, wrap func([]byte) message) {
	buffer := make([]byte, piece)
	for {
		n, err := r.Read(buffer)
		if n > 0 && l.send(wrap(buffer[:n])) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// Line is the near end: it starts programs at the far one.
type Line struct {
	out line

	mu       sync.Mutex
	last     uint32
	programs map[uint32]*distant
	broken   error
}

// NewLine speaks over rw with Serve at the far end.
func NewLine(rw io.ReadWriter) *Line {
	l := &Line{out: line{w: rw}, programs: map[uint32]*distant{}}
	go l.receive(rw)
	return l
}

// distant is a program at the far end.
type distant struct {
	id       uint32
	line     *Line
	out, err io.Writer
	ended    chan struct{}
	code     int
	failure  error // valid, as code, once ended is closed
}

// Start starts a program at the far end. That it could not be started, Wait says.
func (l *Line) Start(argv []string, in io.Reader, out, err io.Writer) (Program, error) {
	l.mu.Lock()
	if l.broken != nil {
		l.mu.Unlock()
		return nil, l.broken
	}
	l.last++
	p := &distant{id: l.last, line: l, out: out, err: err, ended: make(chan struct{})}
	l.programs[p.id] = p
	l.mu.Unlock()
	if err := l.out.send(message{ID: p.id, Argv: argv, EOF: in == nil}); err != nil {
		l.breakAll(err)
		return nil, err
	}
	if in != nil {
		go func() {
			l.out.pass(in, func(b []byte) message { return message{ID: p.id, In: b} })
			l.out.send(message{ID: p.id, EOF: true}) //nolint:errcheck // Wait tells that the line broke
		}()
	}
	return p, nil
}

func (p *distant) Wait() (int, error) {
	<-p.ended
	return p.code, p.failure
}

func (p *distant) Signal(s syscall.Signal) {
	p.line.out.send(message{ID: p.id, Signal: s}) //nolint:errcheck // Wait tells that the line broke
}

// receive hands what comes back to the programs' writers.
func (l *Line) receive(r io.Reader) {
	decoder := json.NewDecoder(r)
	for {
		var m message
		if err := decoder.Decode(&m); err != nil {
			l.breakAll(fmt.Errorf("the line to the machine broke: %w", err))
			return
		}
		l.mu.Lock()
		p := l.programs[m.ID]
		if m.Ended {
			delete(l.programs, m.ID)
		}
		l.mu.Unlock()
		if p != nil {
			p.take(m)
		}
	}
}

func (p *distant) take(m message) {
	// Who no longer wants the output of a program lets it run on.
	if len(m.Out) > 0 && p.out != nil {
		p.out.Write(m.Out) //nolint:errcheck
	}
	if len(m.Err) > 0 && p.err != nil {
		p.err.Write(m.Err) //nolint:errcheck
	}
	if m.Ended {
		if p.code = m.Code; m.Failed != "" {
			p.failure = errors.New(m.Failed)
		}
		close(p.ended)
	}
}

// breakAll ends every program, as far as this end can know, and refuses new ones.
func (l *Line) breakAll(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = err
	}
	for id, p := range l.programs {
		delete(l.programs, id)
		p.failure = l.broken
		close(p.ended)
	}
}
