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
	"strconv"
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

// Status returns the daemon's state.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Revisions returns the stored revisions, oldest first.
func (c *Client) Revisions(ctx context.Context) ([]Revision, error) {
	a, err := call[Revisions](ctx, c, http.MethodGet, "/v1/revisions", nil)
	return a.Revisions, err
}

// Revision returns one revision with its text; number 0 is the running one.
func (c *Client) Revision(ctx context.Context, number int) (Revision, error) {
	which := "running"
	if number != 0 {
		which = strconv.Itoa(number)
	}
	return call[Revision](ctx, c, http.MethodGet, "/v1/revisions/"+which, nil)
}

// Plan returns what applying the configuration would change.
func (c *Client) Plan(ctx context.Context, q Commit) (Result, error) {
	return call[Result](ctx, c, http.MethodPost, "/v1/plan", q)
}

// Apply applies a configuration.
func (c *Client) Apply(ctx context.Context, q Commit) (Result, error) {
	return call[Result](ctx, c, http.MethodPost, "/v1/apply", q)
}

// Restore applies the configuration of a backup.
func (c *Client) Restore(ctx context.Context, q Restore) (Result, error) {
	return call[Result](ctx, c, http.MethodPost, "/v1/restore", q)
}

// Confirm keeps the configuration that waits for it.
func (c *Client) Confirm(ctx context.Context) (Result, error) {
	return call[Result](ctx, c, http.MethodPost, "/v1/confirm", Empty{})
}

// Rollback goes back to a revision; 0 is the one before.
func (c *Client) Rollback(ctx context.Context, revision int) (Result, error) {
	return call[Result](ctx, c, http.MethodPost, "/v1/rollback", Rollback{Revision: revision})
}

// Stop ends the daemon, and with all also takes down what it set up.
func (c *Client) Stop(ctx context.Context, all bool) error {
	_, err := call[Empty](ctx, c, http.MethodPost, "/v1/stop", Stop{All: all})
	return err
}

// Show asks a view, such as "bgp/summary", and decodes its answer into answer.
func (c *Client) Show(ctx context.Context, view string, query url.Values, answer any) error {
	path := "/v1/show/" + view
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.do(ctx, http.MethodGet, path, nil, answer)
}

// Ask asks a question that is too long for Show and changes nothing, such as explain.
func (c *Client) Ask(ctx context.Context, what string, question, answer any) error {
	return c.do(ctx, http.MethodPost, "/v1/"+what, question, answer)
}

// Change asks for a change that is no commit, such as of a set of the firewall.
func (c *Client) Change(ctx context.Context, what string, question, answer any) error {
	return c.do(ctx, "POST", "/v1/"+what, question, answer)
}

// Follow asks a question whose answer goes on, and calls each with every piece until each returns an
// error, the answer ends, or ctx does.
func Follow[A any](ctx context.Context, c *Client, what string, question any, each func(A) error) error {
	ctx, end := c.watch(ctx, 0)
	defer end()
	resp, err := c.send(ctx, http.MethodPost, "/v1/"+what, question)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	d := json.NewDecoder(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return decodeError(resp, d)
	}
	for {
		var a A
		if err := d.Decode(&a); err == io.EOF {
			return nil
		} else if err != nil {
			return broken(ctx, err)
		}
		if err := each(a); err != nil {
			return err
		}
	}
}

func call[A any](ctx context.Context, c *Client, method, path string, question any) (A, error) {
	var a A
	err := c.do(ctx, method, path, question, &a)
	return a, err
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
	e := new(Error)
	if resp.Header.Get("Content-Type") != "application/json" || d.Decode(e) != nil {
		return fmt.Errorf("the daemon answers %s: it is of another version than this command; restart it", resp.Status)
	}
	return e
}

// unreachable says what a failed connection means to the operator.
func (c *Client) unreachable(err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w (nobody listens on %s): start it with: systemctl start minne, or: minne daemon", ErrNoDaemon, c.socket)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("too many wait for the daemon on %s: is it stopped? see: systemctl status minne", c.socket)
	case errors.Is(err, syscall.EACCES):
		return &Error{Kind: Denied, Message: fmt.Sprintf("no permission to speak to the daemon on %s: run it as root (sudo), or join the group %s to look", c.socket, Group)}
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return errors.New("the daemon ended before it answered; see its log, and minne revisions for what is in use")
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("daemon: %w", err)
}
