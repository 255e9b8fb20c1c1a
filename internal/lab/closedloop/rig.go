// SPDX-License-Identifier: Apache-2.0

// Package closedloop measures what forwarding one packet costs, on one core.
//
// A generator, devices side by side, and a sink are namespaces in a row. The
// generator hands a device a batch of frames; the device's and the sink's
// softirqs then run on the same core before the generator goes on. So the time
// per frame is the cost of all three, nothing waits for anything, and nothing
// can queue up: a lost packet is a fault of the device.
//
//	generator ───▶ in   device A   out ───▶ sink
//	          ───▶ in   device B   out ───▶ sink
//	          ───▶ slow
//	          ──────── direct ───────────▶ sink    (what generator and sink cost alone)
//
// A Minne may have a second port towards the generator with the same routes
// behind it: packets that enter by "slow" are forwarded by its kernel, those that
// enter by "in" by its fast path. Nothing is switched between two trials, so
// trials of all paths can alternate within milliseconds.
//
// One core shared with other tenants is noisy: see rounds for what is done about it.
package closedloop

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"

	"minne/internal/base/ipnet"
	"minne/internal/lab"
	"minne/internal/lab/device"
	"minne/internal/lab/traffic"
)

// NextHops is how many next hops of each family a device has behind its port to the sink.
const NextHops = 64

// slowPort is a second entry, left to the kernel.
const slowPort = "slow"

// Rig is a generator, devices side by side, and a sink.
type Rig struct {
	Direct *Path // no device: generator to sink

	lab        *lab.Lab
	generators []*traffic.Generator // of the loads
	sink       *traffic.Sink
	devices    map[string]*device.Device
	paths      map[string]*Path
	cpu        int
}

// Place is where a device stands in the rig.
type Place struct {
	Name   string // of its node, at most 8 bytes
	Device device.Spec
	Slow   bool           // it has the second entry, too
	Routes []netip.Prefix // through the port to the sink
	Bridge []string       // ports of a Minne, each of which is the only one of a bridge
	Queues int            // of its ports in each direction; 0 is 1
}

var slowAddresses = ipnet.Must("198.18.1.1/24", "2001:2:0:3::1/64")

// NextHop returns the i-th next hop of a family behind a device's port to the sink.
func NextHop(i int, ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:2:0:2::1:%x", i+1))
	}
	return netip.AddrFrom4([4]byte{198, 19, 0, byte(i + 10)})
}

// NewRig builds the namespaces and starts a device in every place. They are ready when it returns.
// The caller closes the rig.
func NewRig(ctx context.Context, means device.Means, places ...Place) (*Rig, error) {
	l, err := lab.Start(ctx, topology(places))
	if err != nil {
		return nil, err
	}
	r := &Rig{lab: l, devices: map[string]*device.Device{}, paths: map[string]*Path{}, cpu: runtime.NumCPU() - 1}
	if err := r.build(ctx, means, places); err != nil {
		r.Close() //nolint:errcheck // why it could not be built is what counts
		return nil, err
	}
	return r, nil
}

// Names of the generator's and the sink's own nodes, and of the cable between them.
const (
	generatorNode, sinkNode = "generator", "sink"
	directPort              = "direct"
)

// entries are the ports of a place's device towards the generator.
func (p Place) entries() []string {
	if p.Slow {
		return []string{device.In, slowPort}
	}
	return []string{device.In}
}

// entryPort is the generator's end of the cable to an entry.
func (p Place) entryPort(entry string) string { return p.Name + "-" + entry }

func topology(places []Place) lab.Topology {
	silent := func(node, name string) lab.Port { return lab.Port{Node: node, Name: name, Silent: true} }
	t := lab.Topology{Nodes: []lab.Node{{Name: generatorNode}, {Name: sinkNode}}}
	direct := lab.Link{A: silent(generatorNode, directPort), B: silent(sinkNode, directPort)}
	for _, p := range places {
		direct.Queues = max(direct.Queues, p.Queues)
		if p.Device.Kind == device.None {
			t.Links = append(t.Links, lab.Link{A: silent(generatorNode, p.entryPort(device.In)), B: silent(sinkNode, p.Name), Queues: p.Queues})
			continue
		}
		t.Nodes = append(t.Nodes, lab.Node{Name: p.Name})
		for _, entry := range p.entries() {
			t.Links = append(t.Links, lab.Link{A: silent(generatorNode, p.entryPort(entry)), B: lab.Port{Node: p.Name, Name: entry}, Queues: p.Queues})
		}
		t.Links = append(t.Links, lab.Link{A: lab.Port{Node: p.Name, Name: device.Out}, B: silent(sinkNode, p.Name), Queues: p.Queues})
	}
	t.Links = append(t.Links, direct)
	return t
}

func (r *Rig) build(ctx context.Context, means device.Means, places []Place) (err error) {
	if r.sink, err = traffic.NewSink(); err != nil {
		return err
	}
	cable := Place{Name: directPort, Device: device.Spec{Kind: device.None}}
	if err := r.attach(cable); err != nil {
		return err
	}
	if r.Direct, err = r.newPath(cable, nil, directPort, directPort); err != nil {
		return err
	}
	for _, p := range places {
		if err := r.attach(p); err != nil {
			return err
		}
		if err := r.place(ctx, means, p); err != nil {
			return err
		}
	}
	return nil
}

// attach has the sink take what a place sends.
func (r *Rig) attach(p Place) error {
	sink := r.lab.Node(sinkNode)
	index, _, err := sink.Port(p.Name)
	if err != nil {
		return err
	}
	return sink.Do(func() error { return r.sink.Attach(index) })
}

// place starts a device and finds the paths through it.
func (r *Rig) place(ctx context.Context, means device.Means, p Place) error {
	_, mac, err := r.lab.Node(sinkNode).Port(p.Name)
	if err != nil {
		return err
	}
	_, from, err := r.lab.Node(generatorNode).Port(p.entryPort(device.In))
	if err != nil {
		return err
	}
	var node *lab.Running
	if p.Device.Kind != device.None {
		node = r.lab.Node(p.Name)
	}
	d, err := p.Device.Start(ctx, node, p.wiring(from, mac), means)
	if err != nil {
		return err
	}
	if err := d.AwaitReady(ctx); err != nil {
		return err
	}
	r.devices[p.Name] = d
	for _, entry := range p.entries() {
		path, err := r.newPath(p, d, p.entryPort(entry), entry)
		if err != nil {
			return err
		}
		r.paths[p.Name+" "+entry] = path
	}
	return nil
}

// wiring is what is around a device: the generator's hosts behind its entry, and behind its port to the
// sink the next hops, all of them the sink, whose MAC they have but for the last byte.
func (p Place) wiring(generator, sink net.HardwareAddr) device.Wiring {
	in := device.Port{Name: device.In, Addresses: device.InAddresses, Routes: device.InHosts}
	for _, a := range device.InAddresses {
		in.Stations = append(in.Stations, device.Station{Address: a.Addr().Next(), MAC: generator})
	}
	out := device.Port{Name: device.Out, Addresses: device.OutAddresses, Routes: p.Routes}
	if p.Device.Hops() == 0 {
		out.Stations = []device.Station{{MAC: sink}}
	} else {
		for i := range NextHops {
			for _, ipv6 := range []bool{false, true} {
				out.Stations = append(out.Stations, device.Station{Address: NextHop(i, ipv6), MAC: hopMAC(sink, i)})
			}
		}
	}
	ports := []device.Port{in, out}
	if p.Slow {
		slow := device.Port{Name: slowPort, Addresses: slowAddresses, KernelOnly: true}
		ports = []device.Port{in, slow, out}
	}
	for i, port := range ports {
		if slices.Contains(p.Bridge, port.Name) {
			ports[i].Bridge = "br-" + port.Name
		}
	}
	return device.Wiring{Ports: ports}
}

// hopMAC is the MAC of the i-th next hop.
func hopMAC(sink net.HardwareAddr, i int) net.HardwareAddr {
	mac := slices.Clone(sink)
	mac[5] = byte(i)
	return mac
}

// Path returns the way through the device in a place, by its usual entry.
func (r *Rig) Path(place string) *Path { return r.paths[place+" "+device.In] }

// SlowPath returns the way through the kernel of the device in a place that has the second entry.
func (r *Rig) SlowPath(place string) *Path { return r.paths[place+" "+slowPort] }

// Device returns the device in a place.
func (r *Rig) Device(place string) *device.Device { return r.devices[place] }

// Close removes the rig.
func (r *Rig) Close() error {
	for _, g := range r.generators {
		g.Close()
	}
	if r.sink != nil {
		r.sink.Close()
	}
	return r.lab.Close()
}
