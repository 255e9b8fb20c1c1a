// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Transfers over TCP, translated and not, complete with the right bytes while the
// fast path goes and comes twenty times.
func TestToggle(t *testing.T) {
	n := newNetwork(t)
	least := 64 << 20 // bytes of each
	if long {
		least = 1 << 30
	}
	beforeLAN := n.carried("lan")
	toggled := make(chan struct{})
	var transfers sync.WaitGroup
	began := time.Now()
	for _, to := range []struct {
		name    string
		host    *namespace
		address string
	}{{"translated", n.isp, ispV4}, {"translated, IPv6", n.isp, ispV6}, {"plain", n.beside, besideV4}, {"plain, IPv6", n.beside, besideV6}} {
		address := net.JoinHostPort(to.address, "9000")
		received := receive(to.host.listen(address))
		c := n.client.dial("tcp", address).(*net.TCPConn)
		transfers.Go(func() {
			sent, err := send(c, least, toggled)
			if err != nil {
				t.Errorf("%s: %v", to.name, err)
				return
			}
			if got := <-received; got != sent {
				t.Errorf("%s: sent %v, received %v", to.name, sent, got)
			}
		})
	}
	file := n.file(networkConfig)
	for range 10 {
		n.must("fast-path", "off")
		time.Sleep(100 * time.Millisecond)
		n.must("apply", file)
		n.awaitFastPath("lan", "wan", "dmz")
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("toggled twenty times within %v", time.Since(began).Round(time.Millisecond))
	close(toggled)
	transfers.Wait()
	t.Logf("all transfers took %v, %d packets of the client by the fast path", time.Since(began).Round(time.Millisecond), n.carried("lan")-beforeLAN)
	n.wantCarried("lan", beforeLAN, 1000)
}

// stream is what went through a connection.
type stream struct {
	bytes int
	sum   [sha256.Size]byte
	err   string
}

func (s stream) String() string { return fmt.Sprintf("%d bytes %x %s", s.bytes, s.sum[:6], s.err) }

// send writes at least so many bytes, and goes on until the channel is closed.
func send(c *net.TCPConn, least int, end <-chan struct{}) (s stream, err error) {
	block := bytes.Repeat([]byte("all the bytes in their order. "), 4000)
	hash := sha256.New()
	for number := uint64(0); ; number++ {
		select {
		case <-end:
			if s.bytes >= least {
				hash.Sum(s.sum[:0])
				return s, c.CloseWrite()
			}
		default:
		}
		binary.BigEndian.PutUint64(block[number%1000:], number) // no two blocks are equal
		hash.Write(block)
		if err := c.SetWriteDeadline(time.Now().Add(30 * time.Second)); err != nil {
			return s, err
		}
		n, err := c.Write(block)
		if s.bytes += n; err != nil {
			return s, fmt.Errorf("after %d bytes: %w", s.bytes, err)
		}
	}
}

// receive takes one connection and tells what came through it.
func receive(l net.Listener) <-chan stream {
	received := make(chan stream, 1)
	go func() {
		var s stream
		c, err := l.Accept()
		if err == nil {
			hash := sha256.New()
			var n int64
			n, err = io.Copy(hash, c)
			s.bytes = int(n)
			hash.Sum(s.sum[:0])
			c.Close()
		}
		if err != nil {
			s.err = err.Error()
		}
		received <- s
	}()
	return received
}
