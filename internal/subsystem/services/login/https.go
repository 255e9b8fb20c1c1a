// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"minne/internal/base/certfile"
	"minne/internal/base/listen"
)

// The portal by HTTPS: at port 443 of the router's own addresses, for its own name. Requests of hosts to port 443 elsewhere are
// rejected like all others: nobody here has the certificate of those names. While there is a certificate, port 80 only leads here.

// ports of the portal.
const (
	portHTTP  = 80
	portHTTPS = 443
)

// usable says why a login's certificate can't be used.
func (l *Login) usable(s Settings) error {
	if s.Files == (certfile.Files{}) || s.Authority != nil { // by ACME it comes later
		return nil
	}
	pair, err := l.files.Read(s.Files)
	if err == nil {
		err = pair.Leaf.VerifyHostname(s.Login.Name)
	}
	return err
}

// secure says whether a login's portal is reached by HTTPS now. The caller holds mu.
func (l *Login) secure(login string) bool {
	s := l.settings[login]
	if s.Files == (certfile.Files{}) {
		return false
	}
	_, err := l.files.Get(s.Files)
	return err == nil
}

// expired says which portals no browser trusts any more. The caller holds mu.
func (l *Login) expired() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(l.settings)) {
		if s := l.settings[name]; s.Files != (certfile.Files{}) {
			if pair, err := l.files.Get(s.Files); err == nil && pair.Leaf.NotAfter.Before(l.clock()) {
				list = append(list, fmt.Sprintf("login %s: the certificate of %s has expired at %s", name, s.Login.Name, when(pair.Leaf.NotAfter)))
			}
		}
	}
	return list
}

// serve is the portal of an interface.
func (l *Login) serve(ctx context.Context, iface string, p page, up func()) error {
	plain, err := l.server(ctx, iface, p, portHTTP)
	if err != nil {
		return err
	}
	defer plain.close()
	if p.Files == (certfile.Files{}) {
		up()
		return plain.run(ctx)
	}
	safe, err := l.server(ctx, iface, p, portHTTPS)
	if err != nil {
		return err
	}
	defer safe.close()
	up()
	works := []func(context.Context) error{plain.run, safe.run}
	if p.Tells.API != "" {
		works = append(works, func(ctx context.Context) error { return p.Tells.announce(ctx, iface) })
	}
	inner, end := context.WithCancelCause(ctx)
	defer end(nil)
	ended := make(chan error, len(works))
	for _, work := range works {
		go func() { ended <- work(inner) }()
	}
	for range works {
		err = errors.Join(err, <-ended)
		end(nil) // those that go on
	}
	return err
}

// server is the portal at one port.
type server struct {
	http   *http.Server
	socket net.Listener
	tls    bool
}

func (l *Login) server(ctx context.Context, iface string, p page, port int) (*server, error) {
	socket, err := listen.On(ctx, iface, port)
	if err != nil {
		return nil, fmt.Errorf("login page: %w", err)
	}
	s := &server{socket: newBounded(socket), tls: port == portHTTPS, http: &http.Server{
		Handler: &portal{l, iface, p.Login}, ReadTimeout: 10 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: 5 * time.Second, MaxHeaderBytes: mostHeader,
		ErrorLog: quiet,
	}}
	if s.tls {
		s.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return l.files.Get(p.Files)
		}}
		s.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 8}
	}
	return s, nil
}

// run serves until ctx ends or the server is closed.
func (s *server) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	serve := s.http.Serve
	if s.tls {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(s.socket); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *server) close() {
	s.http.Close()
	s.socket.Close() // where it was not served yet
}
