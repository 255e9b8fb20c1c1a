// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// longestRead is how long an answer that changes nothing may take.
const longestRead = 2 * time.Minute

// silence is a daemon that does not answer.
type silence struct{ text string }

func (s *silence) Error() string { return s.text }

// watch bounds a request. While its answer is not complete, the daemon is asked on the side if it
// is alive: one that is stopped, or hangs, is told from one that has much to do. longest bounds the answer of one
// that lives; 0 is no bound. end must be called.
func (c *Client) watch(ctx context.Context, longest time.Duration) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	began := time.Now()
	go func() {
		tick := time.NewTicker(c.patience)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			took := time.Since(began).Round(time.Second)
			if text := c.silent(ctx); text != "" && ctx.Err() == nil {
				cancel(&silence{text})
				return
			}
			if longest > 0 && took >= longest {
				cancel(&silence{fmt.Sprintf("the daemon lives, and has not answered for %v: see its log, and minne revisions for what is in force", took)})
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// silent asks the daemon if it is alive, and says what an operator has to know if it is not.
func (c *Client) silent(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, c.alive)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return "" // it has gone: the request ends by itself
	}
	defer conn.Close()
	who := "its process is not known"
	if cred, err := credentials(conn); err == nil && cred.Pid > 0 {
		who = fmt.Sprintf("pid %d%s", cred.Pid, stateOf(cred.Pid))
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	_, err = conn.Write([]byte("GET /v1/alive HTTP/1.0\r\nHost: minne\r\n\r\n"))
	if err == nil {
		_, err = conn.Read(make([]byte, 1)) // whatever it says: a daemon of another version has no such question
	}
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	return fmt.Sprintf("the daemon does not answer (%s): unless it was stopped on purpose, see its log and restart it: systemctl restart minne", who)
}

// stateOf is what the kernel says of a process, as a part of a sentence (proc_pid_stat(5)).
func stateOf(pid int32) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(text), ") ")
	word := map[string]string{"T": "stopped", "t": "stopped by a debugger", "D": "waiting for a device", "Z": "dead", "R": "running", "S": "sleeping"}
	if len(after) == 0 {
		return ""
	}
	if w := word[after[:1]]; w != "" {
		return fmt.Sprintf(", state %s: %s", after[:1], w)
	}
	return ", state " + after[:1]
}

// broken says why an answer ended early.
func broken(ctx context.Context, err error) error {
	var silent *silence
	if errors.As(context.Cause(ctx), &silent) {
		return silent
	}
	return fmt.Errorf("answer of the daemon: %w", err)
}
