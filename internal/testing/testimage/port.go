// SPDX-License-Identifier: Apache-2.0

package testimage

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// Port is the other end of a network port's cable.
type Port struct {
	conn      *net.UnixConn
	ours, his string      // paths of the sockets
	came      chan []byte // frames that the machine sent
}

// maxWaiting is how many frames wait to be received; what comes then is lost. A cable
// that nobody reads must not hold the machine's network card up.
const maxWaiting = 4096

// PortMAC is the MAC address of port i.
func PortMAC(i int) string { return fmt.Sprintf("52:54:00:00:00:%02x", i+1) }

func newPort(t *testing.T, dir string, i int) *Port {
	t.Helper()
	p := &Port{ours: filepath.Join(dir, fmt.Sprintf("n%d", i)), his: filepath.Join(dir, fmt.Sprintf("q%d", i))}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: p.ours, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	p.conn, p.came = conn, make(chan []byte, maxWaiting)
	go p.listen()
	return p
}

// listen takes frames from the cable until it is closed.
func (p *Port) listen() {
	for b := make([]byte, 65536); ; {
		n, err := p.conn.Read(b)
		if err != nil {
			return
		}
		select {
		case p.came <- bytes.Clone(b[:n]):
		default:
		}
	}
}

// netdev is the port as QEMU wants to be told of it: a datagram is a frame.
func (p *Port) netdev(i int) string {
	return fmt.Sprintf("dgram,id=port%d,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s", i, p.his, p.ours)
}

// Send puts a frame on the cable.
func (p *Port) Send(frame []byte) error {
	_, err := p.conn.WriteToUnix(frame, &net.UnixAddr{Name: p.his, Net: "unixgram"})
	return err
}

// Receive waits for the next frame that the machine sends, nil when none comes in time.
func (p *Port) Receive(wait time.Duration) []byte {
	select {
	case frame := <-p.came: // one that is there already, however short the time
		return frame
	default:
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case frame := <-p.came:
		return frame
	case <-limit.C:
		return nil
	}
}
