// SPDX-License-Identifier: Apache-2.0

// Package responsiveness measures a shaped line as its users feel it: two hosts behind NAT fill it, one with one TCP
// connection, one with 64, and meanwhile small packets of the first ask how long an answer takes.
//
// The router is in User-Mode Linux, whose kernel has cake on every machine. It carries several times the line's
// speed, so what is measured is the queue. A busy machine adds milliseconds: every figure comes with the same on the idle line.
package responsiveness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"minne/internal/lab/blueprint"
	"minne/internal/lab/histogram"
)

// LineRate is what the line is shaped to, both ways, in bit/s with all that an Ethernet line adds.
const LineRate = 12e6

// flows of the two hosts.
var flows = [2]int{1, 64}

const topology = `
version: 1
nodes:
  one: {runs: host, ports: {eth0: [10.1.0.2/24]}, gateway: [10.1.0.1]}
  many: {runs: host, ports: {eth0: [10.2.0.2/24]}, gateway: [10.2.0.1]}
  isp: {runs: host, ports: {eth0: [192.0.2.1/24]}}
  router:
    runs: minne
    machine: uml
    prepare: iptables-legacy -t nat -A POSTROUTING -o wan -j MASQUERADE
    config: |
      version: 1
      interfaces:
        p1: {addresses: [10.1.0.1/24]}
        p2: {addresses: [10.2.0.1/24]}
        wan: {addresses: [192.0.2.2/24], shape: {down: 12Mbit, up: 12Mbit}}
      fast-path: {mode: generic}
links:
  - {ends: [one.eth0, router.p1]}
  - {ends: [many.eth0, router.p2]}
  - {ends: [isp.eth0, router.wan]}
`

// Bed is a router with its hosts.
type Bed struct {
	network *blueprint.Network
	made    bool // by New
	echo    *net.UDPConn
}

const echoPort = 5007

// New builds the network. binary is the minne command.
func New(ctx context.Context, binary string) (*Bed, error) {
	if _, err := exec.LookPath("iptables-legacy"); err != nil {
		return nil, errors.New("the kernel of the router has NAT by iptables-legacy alone: install Debian's package iptables")
	}
	b, err := blueprint.Parse("responsiveness.yaml", []byte(topology))
	if err != nil {
		return nil, err
	}
	network, err := b.Up(ctx, binary)
	if err != nil {
		return nil, err
	}
	bed, err := On(network)
	if err != nil {
		return nil, errors.Join(err, network.Close())
	}
	bed.made = true
	return bed, nil
}

// On takes a network that is up, with the hosts one and many, and isp at 192.0.2.1.
func On(network *blueprint.Network) (*Bed, error) {
	b := &Bed{network: network}
	err := network.Node("isp").Do(func() (err error) {
		b.echo, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: echoPort})
		return err
	})
	if err != nil {
		return nil, err
	}
	go b.answer()
	return b, nil
}

// Close ends the measuring, and takes down what New has built.
func (b *Bed) Close() error {
	err := b.echo.Close()
	if b.made {
		err = errors.Join(err, b.network.Close())
	}
	return err
}

// answer sends each datagram back.
func (b *Bed) answer() {
	var buffer [probeBytes]byte
	for {
		n, from, err := b.echo.ReadFromUDPAddrPort(buffer[:])
		if err != nil {
			return // closed
		}
		b.echo.WriteToUDPAddrPort(buffer[:n], from) //nolint:errcheck // what can't be sent is lost
	}
}

// Direction is which way transfers go.
type Direction string

// The directions.
const (
	Idle Direction = "idle"
	Up   Direction = "up"
	Down Direction = "down"
)

// Window is what was measured in a second or so.
type Window struct {
	Hosts [2]float64          // bit/s of payload of the host with one connection, and of that with 64
	Trips histogram.Histogram // round trips of small packets of the former
}

// Jain is Jain's index of the hosts' shares: 1 when both have the same, 0.5 when one has all.
func (w Window) Jain() float64 {
	sum, squares := w.Hosts[0]+w.Hosts[1], w.Hosts[0]*w.Hosts[0]+w.Hosts[1]*w.Hosts[1]
	if squares == 0 {
		return 0
	}
	return sum * sum / (2 * squares)
}

// settle is how long transfers have to fill the line before a window counts.
const settle = 6 * time.Second

// Measure has the hosts fill the line in a direction, and returns windows of it.
func (b *Bed) Measure(ctx context.Context, d Direction, windows int, each time.Duration) (all []Window, err error) {
	var bytes [2]atomic.Int64
	ended := make(chan struct{})
	defer close(ended)
	if d != Idle {
		free, err := b.load(d, &bytes, ended)
		defer free() // here, for the next direction takes the same ports
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for range windows {
		var w Window
		before, start := [2]int64{bytes[0].Load(), bytes[1].Load()}, time.Now()
		if err := b.probe(ctx, each, &w.Trips); err != nil {
			return all, err
		}
		seconds := time.Since(start).Seconds()
		for host := range w.Hosts {
			w.Hosts[host] = float64(bytes[host].Load()-before[host]) * 8 / seconds
		}
		all = append(all, w)
	}
	return all, nil
}

// load opens the connections of both hosts, over which data flows until all has ended. free lets go of the ports.
func (b *Bed) load(d Direction, bytes *[2]atomic.Int64, ended chan struct{}) (free func(), _ error) {
	var listeners []net.Listener
	free = func() {
		for _, l := range listeners {
			l.Close()
		}
	}
	var opened sync.WaitGroup
	failed := make(chan error, flows[0]+flows[1])
	for host, name := range []string{"one", "many"} {
		at := fmt.Sprintf("192.0.2.1:%d", 5001+host)
		var listener net.Listener
		if err := b.network.Node("isp").Do(func() (err error) { listener, err = net.Listen("tcp", at); return err }); err != nil {
			return free, err
		}
		listeners = append(listeners, listener)
		for range flows[host] {
			go func() {
				if c, err := listener.Accept(); err == nil {
					pump(c, d == Down, &bytes[host], ended)
				}
			}()
			opened.Go(func() {
				var c net.Conn
				err := b.network.Node(name).Do(func() (err error) { c, err = net.DialTimeout("tcp", at, 20*time.Second); return err })
				if err != nil {
					failed <- err
					return
				}
				go pump(c, d == Up, &bytes[host], ended)
			})
		}
	}
	opened.Wait()
	select {
	case err := <-failed:
		return free, err
	default:
		return free, nil
	}
}

// pump sends or receives until all has ended, and counts what is received.
func pump(c net.Conn, sends bool, bytes *atomic.Int64, ended chan struct{}) {
	go func() {
		<-ended
		c.Close()
	}()
	buffer := make([]byte, 16<<10)
	for {
		n, err := 0, error(nil)
		if sends {
			_, err = c.Write(buffer)
		} else {
			n, err = c.Read(buffer)
		}
		bytes.Add(int64(n))
		if err != nil {
			return
		}
	}
}
