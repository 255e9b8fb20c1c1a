// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// quietly is how often a status becomes a line where lines can't be overwritten.
const quietly = 15 * time.Second

// progress is what people see of a running session. On a terminal the status is
// one line that overwrites itself; elsewhere it is a line from time to time.
type progress struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	width    int // of the status on the screen
	last     time.Time
}

func newProgress(out io.Writer) *progress {
	if out == nil {
		out = io.Discard
	}
	p := &progress{out: out}
	if f, ok := out.(*os.File); ok {
		_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		p.terminal = err == nil
	}
	return p
}

// Line prints a line that stays.
func (p *progress) Line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	fmt.Fprintln(p.out, text)
}

// Status replaces what the last status said.
func (p *progress) Status(text string, left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left > 0 {
		text += ", about " + roughly(left) + " left"
	}
	if !p.terminal {
		if time.Since(p.last) >= quietly {
			p.last = time.Now()
			fmt.Fprintln(p.out, "  "+text)
		}
		return
	}
	p.wipe()
	fmt.Fprint(p.out, text)
	p.width = len([]rune(text))
}

// Clear takes the status off the screen.
func (p *progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}

func (p *progress) wipe() {
	if p.width > 0 {
		fmt.Fprint(p.out, "\r"+strings.Repeat(" ", p.width)+"\r")
		p.width = 0
	}
}

// roughly says a time as people do.
func roughly(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()+0.5))
	case d < 90*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()+0.5))
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
