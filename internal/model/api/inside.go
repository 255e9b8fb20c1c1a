// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// NewClientOf returns a client of a server in the same process, which asks as somebody.
func NewClientOf(s *Server, p Peer) *Client {
	return &Client{patience: LongestAnswer, alive: time.Second, http: http.Client{Transport: inside{s, p}}}
}

// inside takes questions to the server without a socket.
type inside struct {
	server *Server
	peer   Peer
}

// RoundTrip answers as soon as the head of the answer is there; the rest is read while it is written.
func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	body, out := io.Pipe()
	w := &answer{header: http.Header{}, out: out, began: make(chan struct{})}
	// The client's context ends the handler's.
	ask := r.Clone(r.Context())
	if ask.Body == nil {
		ask.Body = http.NoBody
	}
	go func() {
		defer func() {
			var err error
			if trouble := recover(); trouble != nil {
				i.server.log.Error("an answer has failed", "path", r.URL.Path, "reason", trouble)
				err = errors.New("the daemon could not answer")
				w.WriteHeader(http.StatusInternalServerError)
			}
			w.WriteHeader(http.StatusOK)
			out.CloseWithError(err)
		}()
		i.server.ServeFor(i.peer, w, ask)
	}()
	select {
	case <-w.began:
	case <-r.Context().Done():
		body.Close()
		return nil, r.Context().Err()
	}
	return &http.Response{Status: http.StatusText(w.status), StatusCode: w.status, Header: w.header, Body: body, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1}, nil
}

// answer is what a handler writes to.
type answer struct {
	header http.Header
	status int
	out    *io.PipeWriter
	began  chan struct{}
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
		close(a.began)
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.out.Write(b)
}

// Flush, and deadlines, are for connections (http.ResponseController).
func (a *answer) Flush()                           { a.WriteHeader(http.StatusOK) }
func (a *answer) SetReadDeadline(time.Time) error  { return nil }
func (a *answer) SetWriteDeadline(time.Time) error { return nil }
