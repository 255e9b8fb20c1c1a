// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// overALine is a Line whose far end is this machine, through a second line: as `minne lab exec` reaches a machine.
func overALine(t *testing.T) *Line {
	t.Helper()
	near, middle := net.Pipe()
	relay, far := net.Pipe()
	go Serve(far, Local{})           //nolint:errcheck // ends with the pipe
	go Serve(middle, NewLine(relay)) //nolint:errcheck // ends with the pipe
	t.Cleanup(func() { near.Close(); middle.Close(); relay.Close(); far.Close() })
	return NewLine(near)
}

func TestProgramsOverALine(t *testing.T) {
	l := overALine(t)
	long := strings.Repeat("0123456789abcdef", 20_000)
	tests := map[string]struct {
		argv     []string
		in       string
		out, err string
		code     int
		failed   string
	}{
		"output":       {argv: []string{"echo", "hello"}, out: "hello\n"},
		"both outputs": {argv: []string{"sh", "-c", "echo a; echo b >&2; exit 7"}, out: "a\n", err: "b\n", code: 7},
		"input":        {argv: []string{"cat"}, in: long, out: long},
		"unread input": {argv: []string{"true"}, in: long},
		"by a signal":  {argv: []string{"sh", "-c", "kill -TERM $$"}, code: 128 + int(syscall.SIGTERM)},
		"no program":   {argv: []string{"no-such-program"}, failed: "not found"},
	}
	var running sync.WaitGroup
	for name, test := range tests {
		running.Go(func() {
			var out, errs bytes.Buffer
			p, err := l.Start(test.argv, strings.NewReader(test.in), &out, &errs)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			code, err := p.Wait()
			if test.failed != "" {
				if err == nil || !strings.Contains(err.Error(), test.failed) {
					t.Errorf("%s: error %v, expected one with %q", name, err, test.failed)
				}
				return
			}
			if err != nil || code != test.code || out.String() != test.out || errs.String() != test.err {
				t.Errorf("%s: code %d, %v, %d bytes of output, errors %q; expected %d, %d bytes, %q",
					name, code, err, out.Len(), errs.String(), test.code, len(test.out), test.err)
			}
		})
	}
	running.Wait()
}

func TestASignalReachesTheFarEnd(t *testing.T) {
	l := overALine(t)
	var out lines
	p, err := l.Start([]string{"sh", "-c", "trap 'echo ended; exit 3' TERM; echo ready; while :; do sleep 0.05; done"}, nil, &out, nil)
	if err != nil {
		t.Fatal(err)
	}
	out.waitFor("ready\n")
	p.Signal(syscall.SIGTERM)
	if code, err := p.Wait(); err != nil || !strings.Contains(out.String(), "ended") {
		t.Errorf("code %d, %v, output %q", code, err, out.String())
	}
}

func TestABrokenLineEndsItsPrograms(t *testing.T) {
	near, far := net.Pipe()
	go Serve(far, Local{}) //nolint:errcheck // ends with the pipe
	l := NewLine(near)
	p, err := l.Start([]string{"sleep", "100"}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	far.Close()
	if _, err := p.Wait(); err == nil {
		t.Error("a program ended well over a line that broke")
	}
	if _, err := l.Start([]string{"true"}, nil, nil, nil); err == nil {
		t.Error("a program started over a line that broke")
	}
}

// lines is a buffer that can be waited for.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	new  chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	if l.new != nil {
		close(l.new)
		l.new = nil
	}
	return len(b), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) waitFor(text string) {
	for {
		l.mu.Lock()
		found := strings.Contains(l.text.String(), text)
		if l.new == nil {
			l.new = make(chan struct{})
		}
		news := l.new
		l.mu.Unlock()
		if found {
			return
		}
		<-news
	}
}
