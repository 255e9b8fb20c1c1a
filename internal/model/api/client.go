// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"
)

// ErrNoDaemon is wrapped by the errors of a client that finds nobody listening.
var ErrNoDaemon = errors.New("the daemon is not running")

// maxAnswer bounds what a client reads, in bytes: a full table as JSON fits.
const maxAnswer = 2 << 30

// Client speaks to the daemon of one instance.
type Client struct {
	socket string
	http   http.Client
	// patience is how long the daemon may be silent before it is asked if it is alive, and how long it may take
	// to say so.
	patience, alive time.Duration
}

// NewClient returns a client for the daemon behind that socket. It connects when asked something.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, patience: 5 * time.Second, alive: 5 * time.Second,
		http: http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// send sends a request.
func (c *Client) send(ctx context.Context, method, path string, question any) (*http.Response, error) {
	var body io.Reader
	if question != nil {
		text, err := json.Marshal(question)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://minne"+path, body)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if name := os.Getenv("SUDO_USER"); name != "" {
		req.Header.Set(sudoHeader, name)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var silent *silence
		if errors.As(context.Cause(ctx), &silent) {
			return nil, silent
		}
		return nil, c.unreachable(err)
	}
	return resp, nil
}

func (c *Client) do(ctx context.Context, method, path string, question, answer any) error {
	longest := longestRead
	if method != http.MethodGet {
		longest = LongestAnswer + c.patience // the daemon ends it first
	}
	ctx, end := c.watch(ctx, longest)
	defer end()
	resp, err := c.send(ctx, method, path, question)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	d := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode != http.StatusOK {
		return decodeError(resp, d)
	}
	if err := d.Decode(answer); err != nil {
		return broken(ctx, err)
	}
	return nil
}

func decodeError(resp *http.Response, d *json.Decoder) error {
	var f Failure
	if resp.Header.Get("Content-Type") != "application/json" || d.Decode(&f) != nil || f.Error == nil {
		return fmt.Errorf("the daemon answers %s: it is of another version than this command; restart it", resp.Status)
	}
	return f.Error
}

// unreachable says what a failed connection means to the operator.
func (c *Client) unreachable(err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w (no process listens on %s): start it with: systemctl start minne, or: minne daemon", ErrNoDaemon, c.socket)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("too many wait for the daemon on %s: is it stopped? see: systemctl status minne", c.socket)
	case errors.Is(err, syscall.EACCES):
		return &Error{Kind: Denied, Message: fmt.Sprintf("no permission to connect to the daemon on %s: run the command as root (sudo), or join the group %s for read access", c.socket, Group)}
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return errors.New("the daemon ended before it answered; see its log, and minne revisions for what is in force")
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("daemon: %w", err)
}
