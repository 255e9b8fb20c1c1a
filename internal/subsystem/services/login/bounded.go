// SPDX-License-Identifier: Apache-2.0

package login

import (
	"io"
	"log"
	"net"
	"net/netip"
	"sync"
)

// quiet takes what the HTTP server says of broken requests: it quotes them.
var quiet = log.New(io.Discard, "", 0)

// bounded is a listener with a bound on connections, of all and of each host. What is beyond is closed at once.
type bounded struct {
	net.Listener

	mu  sync.Mutex
	all int
	of  map[netip.Addr]int
}

func newBounded(l net.Listener) *bounded { return &bounded{Listener: l, of: map[netip.Addr]int{}} }

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err == nil && b.take(from.Addr()) {
			return &counted{Conn: c, done: sync.OnceFunc(func() { b.give(from.Addr()) })}, nil
		}
		c.Close()
	}
}

func (b *bounded) take(a netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all >= mostConnections || b.of[a] >= mostOfHost {
		return false
	}
	b.all++
	b.of[a]++
	return true
}

func (b *bounded) give(a netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	if b.of[a]--; b.of[a] == 0 {
		delete(b.of, a)
	}
}

type counted struct {
	net.Conn
	done func()
}

func (c *counted) Close() error {
	c.done()
	return c.Conn.Close()
}
