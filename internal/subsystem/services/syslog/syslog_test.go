// SPDX-License-Identifier: Apache-2.0

package syslog

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"minne/internal/base/sink"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/resident"
	"minne/internal/subsystem/services/service"
	"minne/internal/testing/servicetest"
)

// Lines of the log become messages of RFC 5424; what a stranger could put into a line begins no second one.
func TestMessage(t *testing.T) {
	for line, want := range map[string]string{
		`time=2026-11-25T16:24:08.245Z level=WARN msg="fast path can't send" task=fast-path interface=lan`: `<28>1 2026-11-25T16:24:08.245Z attic minne 7 fast-path - msg="fast path can't send" task=fast-path interface=lan`,
		"time=2026-11-25T16:24:08.245Z level=ERROR msg=a\n<13>b\x1b[2J":                                    "<27>1 2026-11-25T16:24:08.245Z attic minne 7 - - msg=a <13>b [2J",
		"no words of slog": "<30>1 - attic minne 7 - - no words of slog",
		"":                 "<30>1 - attic minne 7 - - ",
	} {
		if got, _ := message(line, "at tic", 7); got != want {
			t.Errorf("%q\ngot  %q\nwant %q", line, got, want)
		}
	}
	if got, _ := message("level=INFO msg="+strings.Repeat("ä", 9000), "", 7); len(got) > mostText+100 || !strings.Contains(got, " - minne 7 ") {
		t.Errorf("%d bytes", len(got))
	}
	if got := framed(strings.Repeat("x", 5000), "udp"); len(got) != mostUDP {
		t.Errorf("a datagram of %d bytes", len(got))
	}
}

func TestRender(t *testing.T) {
	cfg := servicetest.Config(t, "services: {syslog: {central: {address: 192.0.2.20, transport: tls, level: warning}, near: {address: 192.0.2.21}}}")
	all, err := Render(cfg, config.Secrets{})
	if err != nil {
		t.Fatal(err)
	}
	if s := all["central"]; s.At != netip.MustParseAddrPort("192.0.2.20:6514") || s.Severity != 4 || s.Name != "192.0.2.20" {
		t.Errorf("%+v", s)
	}
	if s := all["near"]; s.At != netip.MustParseAddrPort("192.0.2.21:514") || s.Transport != "udp" || s.Severity != 6 {
		t.Errorf("%+v", s)
	}
	if list := openings(cfg); len(list) != 2 || !list[0].Out {
		t.Errorf("%+v", list)
	}
}

// journal is a log that is fed by hand.
type journal struct {
	lines chan string
	count int
}

func (j *journal) feed(ctx context.Context, from int, say func(int, string) error) error {
	for {
		select {
		case line := <-j.lines:
			number := j.count
			j.count++
			if err := say(number, line); err != nil {
				j.lines <- line // it is still there for who asks again
				j.count--
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// readCounted reads a message with its length in front (RFC 6587, section 3.4.1).
func readCounted(r *bufio.Reader) (string, error) {
	var n int
	if _, err := fmt.Fscanf(r, "%d ", &n); err != nil {
		return "", err
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return string(b), err
}

// certificate signs itself, for 127.0.0.1.
func certificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// A server that ends a connection gets the rest by the next one; one with a certificate of somebody else gets nothing.
func TestStreams(t *testing.T) {
	own, ca := certificate(t)
	_, stranger := certificate(t)
	for _, transport := range []string{"tcp", "tls"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			if transport == "tls" {
				listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{own}})
			}
			j := &journal{lines: make(chan string, 10)}
			n := &sender{host: service.Host{Lines: j.feed}, next: map[string]int{}}
			s := Settings{sink.Server{At: netip.MustParseAddrPort(listener.Addr().String()), Transport: transport, CA: ca, Name: "127.0.0.1"}, 4, "attic"}
			ctx, end := context.WithCancelCause(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for ctx.Err() == nil {
					_ = n.work(ctx, "central", s, func() {}) // it is tried again, as by package resident
				}
			}()
			j.lines <- "level=INFO msg=quiet"
			j.lines <- "level=WARN msg=one"
			for _, want := range []string{"<28>1 - attic minne", "<27>1 - attic minne"} {
				conn, err := listener.Accept()
				if err != nil {
					t.Fatal(err)
				}
				got, err := readCounted(bufio.NewReader(conn))
				if err != nil || !strings.HasPrefix(got, want) || strings.Contains(got, "quiet") {
					t.Errorf("got %q, %v", got, err)
				}
				conn.Close()
				j.lines <- "level=ERROR msg=two"
				j.lines <- "level=ERROR msg=three" // the one before may be lost with the connection
			}
			end(resident.ErrRemoved)
			<-ended
			if transport == "tls" {
				s.CA = stranger
				go func() {
					if conn, err := listener.Accept(); err == nil {
						_, _ = conn.Read(make([]byte, 1)) // the handshake fails
						conn.Close()
					}
				}()
				if err := n.work(t.Context(), "other", s, func() {}); err == nil || !strings.Contains(err.Error(), "certificate") {
					t.Errorf("a stranger's certificate: %v", err)
				}
			}
		})
	}
}

// Over UDP each line is a datagram, and what was lost is said.
func TestDatagrams(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	feed := func(ctx context.Context, from int, say func(int, string) error) error {
		if err := say(3, "level=INFO msg=three"); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	n := &sender{host: service.Host{Lines: feed}, next: map[string]int{}}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go func() {
		_ = n.work(ctx, "near", Settings{sink.Server{At: netip.MustParseAddrPort(conn.LocalAddr().String()), Transport: "udp"}, 6, "attic"}, func() {}) // ends with ctx
	}()
	for _, want := range []string{"3 lines of the log are lost", "msg=three"} {
		b := make([]byte, 4096)
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		size, _, err := conn.ReadFrom(b)
		if err != nil || !strings.Contains(string(b[:size]), want) {
			t.Errorf("got %q, %v; want %q", b[:size], err, want)
		}
	}
}
