// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
)

// Operation is something that the daemon can be asked for. Server, client and the OpenAPI document
// are made of it: who adds one says everything about it here.
type Operation[Q, A any] struct {
	Method  string // GET changes nothing, and has its question in the address
	Path    string // {name} stands for the question's field of that name
	Short   string
	Root    bool         // uid 0 and the role admin only, which all operations are that change something
	Runs    bool         // with Root: the role operate may, too; it does not touch the configuration
	Goes    bool         // the answer goes on: JSON values, one behind the other, until one side hangs up
	Private bool         // it tells what people say to each other
	Answers reflect.Type // of the answer for the document, where A is text already; nil for A
}

// The operations whose words the whole tree knows. Those about subsystems are in package router.
var (
	Alive        = Operation[Empty, Empty]{Method: "GET", Path: "/v1/alive", Short: "Check that the daemon answers"}
	GetStatus    = Operation[Empty, Status]{Method: "GET", Path: "/v1/status", Short: "Show the daemon's status"}
	GetRevisions = Operation[Empty, Revisions]{Method: "GET", Path: "/v1/revisions", Short: "List the revisions, oldest first"}
	GetRevision  = Operation[RevisionQuestion, Revision]{Method: "GET", Path: "/v1/revisions/{number}", Short: "Show one stored configuration with its text"}
	Plan         = Operation[Commit, Result]{Method: "POST", Path: "/v1/plan", Short: "Show what an apply would change"}
	Apply        = Operation[Commit, Result]{Method: "POST", Path: "/v1/apply", Short: "Apply a configuration", Root: true}
	Restore      = Operation[RestoreQuestion, Result]{Method: "POST", Path: "/v1/restore", Short: "Restore a backup: its configuration, secrets and files", Root: true}
	Confirm      = Operation[Empty, Result]{Method: "POST", Path: "/v1/confirm", Short: "Confirm the configuration that was applied with a deadline", Root: true}
	Rollback     = Operation[RollbackQuestion, Result]{Method: "POST", Path: "/v1/rollback", Short: "Roll back to an earlier configuration", Root: true}
	Stop         = Operation[StopQuestion, Empty]{Method: "POST", Path: "/v1/stop", Short: "Stop the daemon", Root: true}
)

// Ask asks the daemon.
func (o Operation[Q, A]) Ask(ctx context.Context, c *Client, q Q) (a A, err error) {
	path, body, err := o.request(q)
	if err == nil {
		err = c.do(ctx, o.Method, path, body, &a)
	}
	return a, err
}

// Follow asks the daemon for what goes on, and calls each with every piece until each returns an
// error, the answer ends, or ctx does.
func (o Operation[Q, A]) Follow(ctx context.Context, c *Client, q Q, each func(A) error) error {
	path, body, err := o.request(q)
	if err != nil {
		return err
	}
	ctx, end := c.watch(ctx, 0)
	defer end()
	resp, err := c.send(ctx, o.Method, path, body)
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

// request is the address and the body of a question.
func (o Operation[Q, A]) request(q Q) (path string, body any, err error) {
	if o.Method == http.MethodGet {
		return address(o.Path, &q), nil, nil
	}
	return o.Path, q, nil
}

// untyped is the operation for the document.
func (o Operation[Q, A]) untyped() operation {
	answer := o.Answers
	if answer == nil {
		answer = reflect.TypeFor[A]()
	}
	return operation{o.Method, o.Path, o.Short, o.Root, o.Goes, reflect.TypeFor[Q](), answer}
}

// Serve adds an operation to a server.
func Serve[Q, A any](s *Server, o Operation[Q, A], answer func(*http.Request, Q) (A, error)) {
	s.add(o.untyped(), func(w http.ResponseWriter, r *http.Request) {
		var q Q
		err := o.allowed(r)
		if err == nil {
			err = Misused(readQuestion(w, r, &q))
		}
		var a A
		if err == nil {
			a, err = answer(r, q)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.send(w, r, http.StatusOK, a)
	})
}

// ServeOn adds an operation whose answer goes on until the one who asked goes, or there is nothing more to say.
func ServeOn[Q, A any](s *Server, o Operation[Q, A], answer func(ctx context.Context, q Q, say func(A) error) error) {
	s.add(o.untyped(), func(w http.ResponseWriter, r *http.Request) {
		var q Q
		err := o.allowed(r)
		if err == nil {
			err = Misused(readQuestion(w, r, &q))
		}
		if err == nil {
			err = unbounded(w)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		said, encoder := false, json.NewEncoder(w)
		err = answer(r.Context(), q, func(a A) error {
			if !said {
				w.Header().Set("Content-Type", "application/json")
				said = true
			}
			if err := encoder.Encode(a); err != nil {
				return err
			}
			return http.NewResponseController(w).Flush()
		})
		if err != nil && !said {
			s.fail(w, r, err)
		}
	})
}

// allowed says why the one who asks may not.
func (o Operation[Q, A]) allowed(r *http.Request) error {
	p := PeerOf(r.Context())
	switch {
	case !o.Root || p.May() == Admin || o.Runs && p.May() == Operate:
		return nil
	case p.Remote:
		return &Error{Kind: Denied, Message: fmt.Sprintf("%s has the role %s, which may not do this", p.User, p.Role)}
	case o.Private:
		return &Error{Kind: Denied, Message: fmt.Sprintf("packet capture requires root, and this is user %s: run it with sudo", p.User)}
	}
	return &Error{Kind: Denied, Message: fmt.Sprintf("user %s may look but not change: run it as root (sudo)", p.User)}
}
