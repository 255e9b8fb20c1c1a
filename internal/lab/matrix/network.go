// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"minne/internal/base/ipnet"
	"minne/internal/lab"
	"minne/internal/lab/device"
	"minne/internal/lab/result"
)

// Paths as results name them.
const (
	Routed   = "routed"
	Bridged  = "bridged"
	EndToEnd = "end to end"
)

// host is where one end of the transfers runs: a node of a lab, or this machine.
type host interface {
	Run(ctx context.Context, argv ...string) (string, error)
	Do(f func() error) error
}

// Network is two hosts with a device between.
type Network struct {
	Path string

	device  *device.Device // nil end to end
	lab     *lab.Lab
	name    string                // of the device
	client  host                  // sends
	server  map[string]netip.Addr // receives; its address of each family
	buffer  int                   // of UDP sockets, bytes; 0 is the hosts' default: end to end only the other knows its limit
	serving *lab.Process          // iperf3 of a lab's server
	echo    *echo
}

// Build makes two hosts and a device between them, out of namespaces. A device that
// routes gets two networks, any other one. The caller closes it.
func Build(ctx context.Context, spec device.Spec, means device.Means) (*Network, error) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		return nil, errors.New("iperf3 is not installed: the matrix is measured with it; install the package iperf3")
	}
	if spec.Kind == device.None {
		return nil, errors.New("device none: the matrix needs a device between its hosts; for a cable use an external one, end to end")
	}
	a := plan(spec)
	l, err := lab.Start(ctx, a.topology)
	if err != nil {
		return nil, err
	}
	n := &Network{Path: a.path, lab: l, name: spec.String(), client: l.Node("client"), server: a.server, buffer: socketBuffer()}
	if err := n.start(ctx, spec, means, a); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// addressing is a network on paper.
type addressing struct {
	path     string
	topology lab.Topology
	hosts    map[string][]netip.Prefix // by node
	ports    map[string][]netip.Prefix // of the device, by the name of the port
	server   map[string]netip.Addr
}

// plan chooses the addresses: RFC 2544's (RFC 6815) and RFC 5180's networks for benchmarks.
func plan(spec device.Spec) addressing {
	a := addressing{
		path: Bridged,
		hosts: map[string][]netip.Prefix{
			"client": ipnet.Must("198.18.0.2/24", "2001:2:0:1::2/64"),
			"server": ipnet.Must("198.18.0.3/24", "2001:2:0:1::3/64"),
		},
	}
	var client, server []lab.Route
	if spec.Hops() > 0 {
		a.path = Routed
		a.hosts["server"] = ipnet.Must("198.19.0.2/24", "2001:2:0:2::2/64")
		a.ports = map[string][]netip.Prefix{device.In: device.InAddresses, device.Out: device.OutAddresses}
		client, server = routes(a.hosts["server"], a.ports[device.In]), routes(a.hosts["client"], a.ports[device.Out])
	}
	a.server = map[string]netip.Addr{IPv4: a.hosts["server"][0].Addr(), IPv6: a.hosts["server"][1].Addr()}
	a.topology = lab.Topology{
		Nodes: []lab.Node{{Name: "client", Routes: client}, {Name: "device"}, {Name: "server", Routes: server}},
		Links: []lab.Link{
			{A: lab.Port{Node: "client", Name: hostPort, Addresses: a.hosts["client"]}, B: lab.Port{Node: "device", Name: device.In}},
			{A: lab.Port{Node: "device", Name: device.Out}, B: lab.Port{Node: "server", Name: hostPort, Addresses: a.hosts["server"]}},
		},
	}
	return a
}

// hostPort is the name of a host's only port.
const hostPort = "port"

// routes lead to the networks of the far prefixes by the addresses of the near ones, both IPv4 first.
func routes(far, near []netip.Prefix) (all []lab.Route) {
	for i := range far {
		all = append(all, lab.Route{To: far[i].Masked(), Via: near[i].Addr()})
	}
	return all
}

func (n *Network) start(ctx context.Context, spec device.Spec, means device.Means, a addressing) (err error) {
	w := device.Wiring{}
	for _, p := range []struct{ port, host string }{{device.In, "client"}, {device.Out, "server"}} {
		h := n.lab.Node(p.host)
		// Lets a veth take the frames that the device's fast path redirects to it; the same for all devices.
		if _, err := h.Run(ctx, "ethtool", "-K", hostPort, "gro", "on"); err != nil {
			return err
		}
		_, mac, err := h.Port(hostPort)
		if err != nil {
			return err
		}
		port := device.Port{Name: p.port, Addresses: a.ports[p.port]}
		for _, address := range a.hosts[p.host] {
			port.Stations = append(port.Stations, device.Station{Address: address.Addr(), MAC: mac})
		}
		w.Ports = append(w.Ports, port)
	}
	if n.device, err = spec.Start(ctx, n.lab.Node("device"), w, means); err != nil {
		return err
	}
	if err := n.device.AwaitReady(ctx); err != nil {
		return err
	}
	if n.echo, err = startEcho(n.lab.Node("server")); err != nil {
		return err
	}
	if err := n.awaitServer(ctx); err != nil {
		return err
	}
	return n.serve()
}

// serve starts the iperf3 that receives; one that still runs is ended first.
func (n *Network) serve() (err error) {
	if n.serving != nil {
		n.serving.Stop(time.Second)
	}
	n.serving, err = n.lab.Node("server").Start("iperf3", "iperf3", "-s")
	return err
}

// awaitServer waits until the server's echo answers over each family, through the device.
func (n *Network) awaitServer(ctx context.Context) error {
	for family, address := range n.server {
		err := lab.Until(ctx, 20*time.Second, "the server to answer over "+family, func() error {
			return n.client.Do(func() error { return knock(address) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// knock sends the echo one datagram and waits for it to come back.
func knock(server netip.Addr) error {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(server, echoPort)))
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(make([]byte, probeBytes)); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, probeBytes))
	return err
}

// Close removes the network.
func (n *Network) Close() error {
	if n.echo != nil {
		n.echo.Close()
	}
	if n.lab == nil {
		return nil
	}
	return n.lab.Close()
}

// Facts describes the device for a report.
func (n *Network) Facts(ctx context.Context) (result.Device, error) {
	if n.device == nil {
		return result.Device{Name: n.name, Kind: "external", Remark: "client and server are the device"}, nil
	}
	return n.device.Facts(ctx)
}

// Topology says what the network is made of, for a report.
func (n *Network) Topology() string {
	if n.device == nil {
		return "this machine and " + n.name
	}
	return "client, device and server: namespaces of one machine"
}

// here is this machine.
type here struct{}

func (here) Do(f func() error) error { return f() }

// Run runs a program to its end and returns what it wrote to its standard output.
func (here) Run(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return string(out), err
}

// Remote is a network whose other end is another machine, where Serve runs. The
// address is an IP address or a host name; of a name both families are measured.
func Remote(ctx context.Context, address string) (*Network, error) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		return nil, errors.New("iperf3 is not installed: the matrix is measured with it; install the package iperf3")
	}
	n := &Network{Path: EndToEnd, name: address, client: here{}, server: map[string]netip.Addr{}}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", address)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", address, err)
	}
	for _, a := range found {
		a = a.Unmap()
		family := IPv4
		if a.Is6() {
			family = IPv6
		}
		if _, ok := n.server[family]; !ok {
			n.server[family] = a
		}
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := n.awaitServer(limited); err != nil {
		return nil, fmt.Errorf("%w\nStart it there with: minne lab matrix --server", err)
	}
	return n, nil
}

// Serve is the other end of Remote, until ctx ends: iperf3 and the echo of Responsiveness.
func Serve(ctx context.Context) error {
	path, err := exec.LookPath("iperf3")
	if err != nil {
		return errors.New("iperf3 is not installed: the matrix is measured with it; install the package iperf3")
	}
	e, err := startEcho(here{})
	if err != nil {
		return err
	}
	defer e.Close()
	cmd := exec.CommandContext(ctx, path, "-s")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("iperf3 -s ended: %v: %s", err, strings.TrimSpace(stderr.String()))
}

// timestamps says whether this machine's TCP sends time stamps.
func timestamps() bool {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_timestamps")
	return err != nil || strings.TrimSpace(string(text)) != "0"
}
