// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"minne/internal/base/machine"
	"minne/internal/lab/result"
	"minne/internal/lab/traffic"
	"minne/internal/subsystem/ports"
)

// Cards are two network ports of this computer with a device between them that
// nothing is known of: any router, with no program of the lab on it.
type Cards struct {
	Left, Right               string   // names of the ports
	LeftGateway, RightGateway string   // the device's MAC or address on each side; both empty for a bridge or a cable
	LeftAddress, RightAddress []string // that the tester has meanwhile and answers for, with their lengths
	Force                     bool     // also when the computer needs the port for something else
}

// Times at real ports.
const (
	cardQuiet   = 100 * time.Millisecond // without an arrival until a trial is over
	carrierTime = 10 * time.Second       // until a port that was set up must have a link
)

// StartCards builds a rig of two ports. The caller closes it, which leaves the ports as they were.
func StartCards(ctx context.Context, c Cards, s Setup) (*Rig, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("measuring through network ports needs programs in the kernel and changes the ports' settings, which only root may do: run this as root")
	}
	if c.Left == "" || c.Right == "" {
		return nil, errors.New("two ports are needed: give both --tx and --rx")
	}
	if (c.LeftGateway == "") != (c.RightGateway == "") {
		return nil, errors.New("a router has a port on either side: give both --tx-gateway and --rx-gateway, or neither when the device is a bridge or a cable")
	}
	cpus, err := machine.Allowed()
	if err != nil {
		return nil, err
	}
	place, err := placeCards(cpus, max(1, s.Lanes))
	if err != nil {
		return nil, err
	}
	r := &Rig{
		place: place, macBytes: 6, quiet: cardQuiet,
		inTester: func(f func() error) error { return f() },
		hold:     func(context.Context) error { return nil },
	}
	if err := r.buildCards(ctx, c, s); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Rig) buildCards(ctx context.Context, c Cards, s Setup) error {
	facts, err := ports.Check(c.Force, c.Left, c.Right)
	if err != nil {
		return err
	}
	for i, f := range facts {
		prepared, err := ports.Prepare(f.Name)
		if prepared != nil {
			r.closers = append(r.closers, prepared.Restore)
		}
		if err != nil {
			return err
		}
		mac, err := net.ParseMAC(f.MAC)
		if err != nil {
			return fmt.Errorf("port %s: %w", f.Name, err)
		}
		r.sides[i] = side{name: f.Name, index: f.Index, mac: mac}
	}
	if err := ports.AwaitCarrier(ctx, carrierTime, c.Left, c.Right); err != nil {
		return err
	}
	transmit := byProgram
	for _, f := range facts {
		if f.XDP.Known && !f.XDP.Transmit {
			transmit = bySocket
		}
	}
	if err := r.equip(transmit); err != nil {
		return err
	}
	if err := r.gateways(ctx, c); err != nil {
		return err
	}
	r.describeCards(c, facts)
	return r.Load(s.Traffic)
}

// gateways finds out where frames are sent.
func (r *Rig) gateways(ctx context.Context, c Cards) error {
	for i, addresses := range [][]string{c.LeftAddress, c.RightAddress} {
		for _, address := range addresses {
			remove, err := addAddress(r.sides[i].index, address)
			if err != nil {
				return fmt.Errorf("port %s: %w", r.sides[i].name, err)
			}
			r.closers = append(r.closers, remove)
		}
	}
	if c.LeftGateway == "" {
		for i := range r.sides {
			r.sides[i].nextHop = r.sides[1-i].mac
		}
		return nil
	}
	r.hops = 1
	for i, gateway := range []string{c.LeftGateway, c.RightGateway} {
		mac, err := resolve(ctx, r.sides[i], gateway)
		if err != nil {
			return err
		}
		r.sides[i].nextHop = mac
	}
	return nil
}

func (r *Rig) describeCards(c Cards, facts []ports.Facts) {
	r.facts = result.Device{Name: "external", Kind: "external", Remark: fmt.Sprintf("what is between %s and %s", c.Left, c.Right)}
	r.tester = result.Tester{
		Topology: "two network ports with a device between them", Mode: "open loop",
		Transmit: r.tester.Transmit, Receive: r.sink.Receive(r.sides[1].index), Batch: traffic.Batch, CPUs: r.place.describe(),
	}
	for i, f := range facts {
		port := f.Port
		port.Role = "generator and sink"
		r.tester.Ports = append(r.tester.Ports, port)
		if speed := float64(port.Speed); speed > 0 && (i == 0 || speed < r.tester.LineRate) {
			r.tester.LineRate = speed
		}
		r.notes = append(r.notes, f.Remarks()...)
	}
	if facts[0].Speed == 0 || facts[1].Speed == 0 {
		r.tester.LineRate = 0
	}
}
