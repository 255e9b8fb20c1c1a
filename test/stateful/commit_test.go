// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A commit that forbids a flow stops it within a second, in both directions, and
// no other flow loses a packet.
func TestCommitStopsFlow(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	end := make(chan struct{})
	var running sync.WaitGroup
	start := func(host *namespace, address, port string) *echoed {
		e := newEchoed(n.client, host, net.JoinHostPort(address, port))
		running.Go(func() { e.run(end) })
		return e
	}
	forbidden := []*echoed{start(n.isp, ispV4, "5001"), start(n.isp, ispV6, "5001"), start(n.beside, besideV4, "5001"), start(n.beside, besideV6, "5001")}
	permitted := []*echoed{start(n.isp, ispV4, "5002"), start(n.isp, ispV6, "5002"), start(n.beside, besideV4, "5002"), start(n.beside, besideV6, "5002")}
	tcpForbidden, tcpPermitted := n.talk(n.isp, ispV4+":5001"), n.talk(n.isp, ispV4+":5002")
	time.Sleep(3 * time.Second) // UDP counts as a connection after two
	for _, c := range []net.Conn{tcpForbidden, tcpPermitted} {
		must(t, saidAndHeard(c))
	}
	before := n.carried("lan")
	time.Sleep(time.Second)
	n.wantCarried("lan", before, 500)

	n.apply(forbidding("deny tcp/udp any any 5001"))
	committed := time.Now()
	time.Sleep(3 * time.Second)
	close(end)
	running.Wait()
	for _, e := range forbidden {
		there, back := e.after(committed.Add(time.Second))
		if there+back > 0 || e.sentAfter(committed.Add(time.Second)) == 0 {
			t.Errorf("%s is forbidden: %d packets there and %d back came later than a second after the commit", e.address, there, back)
		}
		if there, _ := e.after(time.Time{}); there < 500 {
			t.Errorf("%s: only %d packets came before the commit", e.address, there)
		}
	}
	for _, e := range permitted {
		if there, back := e.after(time.Time{}); there != e.sentAfter(time.Time{}) || back != there {
			t.Errorf("%s goes on: %d packets were sent, %d arrived, %d came back", e.address, e.sentAfter(time.Time{}), there, back)
		}
	}
	if err := saidAndHeard(tcpForbidden); err == nil {
		t.Error("the forbidden TCP connection goes on")
	}
	if err := saidAndHeard(tcpPermitted); err != nil {
		t.Errorf("the permitted TCP connection: %v", err)
	}
}

// echoed is a flow of numbered datagrams to a host that returns each.
type echoed struct {
	address           string
	client            net.Conn
	server            *net.UDPConn
	sent, there, back []time.Time
}

func newEchoed(client, host *namespace, address string) *echoed {
	return &echoed{address: address, server: host.packets(address), client: client.dial("udp", address)}
}

// run sends 250 datagrams a second until the channel is closed, and then waits for the last.
func (e *echoed) run(end <-chan struct{}) {
	var both sync.WaitGroup
	both.Go(func() {
		buffer := make([]byte, 100)
		for {
			n, from, err := e.server.ReadFrom(buffer)
			if err != nil {
				return
			}
			e.there = append(e.there, time.Now())
			_, _ = e.server.WriteTo(buffer[:n], from)
		}
	})
	both.Go(func() {
		buffer := make([]byte, 100)
		for {
			_, err := e.client.Read(buffer)
			if e2, ok := err.(net.Error); ok && e2.Timeout() {
				return
			}
			if err == nil {
				e.back = append(e.back, time.Now())
			}
		}
	})
	tick := time.NewTicker(4 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-end:
			done = true
		case <-tick.C:
			if _, err := e.client.Write(binary.BigEndian.AppendUint32(nil, uint32(len(e.sent)))); err == nil {
				e.sent = append(e.sent, time.Now())
			}
		}
	}
	late := time.Now().Add(500 * time.Millisecond)
	_ = e.server.SetReadDeadline(late)
	_ = e.client.SetReadDeadline(late)
	both.Wait()
}

// after is how many datagrams arrived at the host, and how many came back, after a time.
func (e *echoed) after(at time.Time) (there, back int) { return since(e.there, at), since(e.back, at) }

func (e *echoed) sentAfter(at time.Time) int { return since(e.sent, at) }

func since(times []time.Time, at time.Time) (n int) {
	for _, one := range times {
		if one.After(at) {
			n++
		}
	}
	return n
}

// talk opens a TCP connection to a host that returns what it gets.
func (n *network) talk(host *namespace, address string) net.Conn {
	n.t.Helper()
	l := host.listen(address)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	return n.client.dial("tcp", address)
}

// saidAndHeard says something and wants it back.
func saidAndHeard(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	said := []byte("hello")
	if _, err := c.Write(said); err != nil {
		return err
	}
	heard := make([]byte, len(said))
	if _, err := io.ReadFull(c, heard); err != nil {
		return fmt.Errorf("%s does not answer: %w", c.RemoteAddr(), err)
	}
	return nil
}
