// SPDX-License-Identifier: Apache-2.0

// Package listen takes TCP connections that come in by one interface, over IPv4 and IPv6.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// On listens on a port for what comes in by an interface; for one in a VRF too. The interface has to be there (ENODEV).
// A host without IPv6 gets IPv4 alone.
//
// There is a socket for each family. One for both is not to be had by all: where lo was down when Go asked for the first
// time, it takes the host for one without IPv6 for as long as the process lives.
func On(ctx context.Context, device string, port int) (net.Listener, error) {
	if _, err := net.InterfaceByName(device); err != nil {
		return nil, fmt.Errorf("%s: %w", device, unix.ENODEV)
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), device) })
		return errors.Join(err, failed)
	}}
	four, err := config.Listen(ctx, "tcp4", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, err
	}
	six, err := config.Listen(ctx, "tcp6", fmt.Sprintf("[::]:%d", port))
	switch {
	case errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EADDRNOTAVAIL):
		return four, nil
	case err != nil:
		four.Close()
		return nil, err
	}
	return newBoth(four, six), nil
}

// both takes connections of two sockets.
type both struct {
	sockets [2]net.Listener
	taken   chan taken
	closed  chan struct{}
	close   func() error
}

type taken struct {
	conn net.Conn
	err  error
}

func newBoth(four, six net.Listener) *both {
	b := &both{sockets: [2]net.Listener{four, six}, taken: make(chan taken), closed: make(chan struct{})}
	b.close = sync.OnceValue(func() error {
		close(b.closed)
		return errors.Join(four.Close(), six.Close())
	})
	for _, socket := range b.sockets {
		go b.take(socket)
	}
	return b
}

func (b *both) take(socket net.Listener) {
	for {
		conn, err := socket.Accept()
		select {
		case b.taken <- taken{conn, err}:
		case <-b.closed:
			if err == nil {
				conn.Close()
			}
			return
		}
	}
}

func (b *both) Accept() (net.Conn, error) {
	select {
	case t := <-b.taken:
		return t.conn, t.err
	case <-b.closed:
		return nil, net.ErrClosed
	}
}

func (b *both) Close() error   { return b.close() }
func (b *both) Addr() net.Addr { return b.sockets[0].Addr() }
