// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"minne/internal/base/listen"
	"minne/internal/model/api"
)

// Bounds of what strangers can take: time until a request is there, its head, connections at once. A body has the time that
// a configuration needs on a line of 64 kbit/s; who is not logged in has a small one.
const (
	headerTime    = 10 * time.Second
	requestTime   = 2 * time.Minute
	idleTime      = time.Minute
	mostHeader    = 16 << 10
	roomOfAddress = 24
	roomOfAll     = 256
	endTime       = 2 * time.Second // for requests that run when the listener ends
)

// listen serves one interface until ctx ends.
func (s *Server) listen(ctx context.Context, name string, l Listener, up func()) error {
	socket, err := listen.On(ctx, name, l.Port)
	if err != nil {
		return err
	}
	defer socket.Close()
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       requestTime,
		WriteTimeout:      api.LongestAnswer,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    mostHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 32, WriteByteTimeout: 30 * time.Second, SendPingTimeout: 30 * time.Second},
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.files.Get(l.Files)
		}},
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		end, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		if server.Shutdown(end) != nil {
			server.Close()
		}
	})
	up()
	err = server.ServeTLS(roomy{socket, s.room}, "", "")
	if !stop() {
		<-ended
		return nil
	}
	return errors.Join(err, server.Close())
}

// room counts the connections of addresses.
type room struct {
	mu    sync.Mutex
	all   int
	taken map[netip.Prefix]int
}

func newRoom() *room { return &room{taken: map[netip.Prefix]int{}} }

// enter says whether there is room for another connection of an address.
func (r *room) enter(from netip.Prefix) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all >= roomOfAll || r.taken[from] >= roomOfAddress {
		return false
	}
	r.all++
	r.taken[from]++
	return true
}

func (r *room) leave(from netip.Prefix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.taken[from]--; r.taken[from] == 0 {
		delete(r.taken, from)
	}
}

// roomy is a listener that closes connections for which there is no room.
type roomy struct {
	net.Listener
	room *room
}

func (l roomy) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		at, _ := netip.ParseAddrPort(c.RemoteAddr().String())
		from := origin(at.Addr())
		if !l.room.enter(from) {
			c.Close()
			continue
		}
		return &guest{Conn: c, leave: sync.OnceFunc(func() { l.room.leave(from) })}, nil
	}
}

// guest is a connection that counts until it is closed.
type guest struct {
	net.Conn
	leave func()
}

func (g *guest) Close() error {
	g.leave()
	return g.Conn.Close()
}
