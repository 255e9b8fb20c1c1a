// SPDX-License-Identifier: Apache-2.0

// Package sink connects the router to a server that takes what it is sent and answers nothing: of syslog, or of flow records.
package sink

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Server is where to send.
type Server struct {
	At          netip.AddrPort
	Transport   string // udp, tcp, tls
	Name        string // in its certificate, with tls
	CA          string // PEM; "" for the authorities of the system
	Certificate string // PEM of the router's own certificate and its key; "" for none
}

// To is a server whose certificate has a name, "" for its address.
func To(at netip.AddrPort, transport, name string) Server {
	return Server{At: at, Transport: transport, Name: cmp.Or(name, at.Addr().String())}
}

// WriteLimit is how long a server may take to take what is written.
const WriteLimit = 10 * time.Second

const (
	connectLimit = 10 * time.Second
	keepAlive    = 30 * time.Second
)

// Authorities reads the certificates of authorities.
func Authorities(pem string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, errors.New("holds no certificate in PEM")
	}
	return pool, nil
}

// Own reads a certificate and its key.
func Own(pem string) (tls.Certificate, error) {
	own, err := tls.X509KeyPair([]byte(pem), []byte(pem))
	if err != nil {
		err = fmt.Errorf("does not hold a certificate and its key in PEM: %w", err)
	}
	return own, err
}

func (s Server) settings() (*tls.Config, error) {
	settings := &tls.Config{ServerName: s.Name, MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		var err error
		if settings.RootCAs, err = Authorities(s.CA); err != nil {
			return nil, fmt.Errorf("the secret of the authority %w", err)
		}
	}
	if s.Certificate != "" {
		own, err := Own(s.Certificate)
		if err != nil {
			return nil, fmt.Errorf("the secret of the router's certificate %w", err)
		}
		settings.Certificates = []tls.Certificate{own}
	}
	return settings, nil
}

// Dial connects, with TLS until both sides have agreed.
func (s Server) Dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectLimit, KeepAlive: keepAlive}
	if s.Transport != "tls" {
		return dialer.DialContext(ctx, s.Transport, s.At.String())
	}
	settings, err := s.settings()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	return (&tls.Dialer{NetDialer: &dialer, Config: settings}).DialContext(ctx, "tcp", s.At.String())
}

// WhileUp is a context that ends with ctx, or when the server ends the connection, which is then its cause. With either the connection is
// closed. The caller calls end when it is done.
func (s Server) WhileUp(ctx context.Context, conn net.Conn) (up context.Context, end func()) {
	up, hungUp := context.WithCancelCause(ctx)
	stop := context.AfterFunc(up, func() { conn.Close() })
	if s.Transport != "udp" {
		go func() { // a server says nothing: what comes is its end
			_, err := conn.Read(make([]byte, 1))
			hungUp(fmt.Errorf("%s has ended the connection: %w", s.At, err))
		}()
	}
	return up, func() { stop(); hungUp(nil) }
}
