// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/lab"
	"minne/internal/lab/result"
	"minne/internal/model/rib"
	"minne/internal/subsystem/fastpath"
)

// Loader puts routes into the kernel of the calling thread's namespace.
type Loader func(ctx context.Context, routes []rib.Route) error

// Means is what devices are made with.
type Means struct {
	Binary string // the minne command, for specs that name none
	Load   Loader
}

// Device is a device under test that runs.
type Device struct {
	Spec

	node             *lab.Running // nil for a cable
	wiring           Wiring
	means            Means
	binary           string // of a Minne
	minne            *lab.Minne
	config           string
	routes4, routes6 int
}

// readyTime bounds how long a router may take for a full table.
const readyTime = time.Minute

// Start makes the node, whose ports are up and without addresses, the device. A cable
// has no node: whoever builds the network connects its two ends. What was started ends with the node's lab.
func (s Spec) Start(ctx context.Context, node *lab.Running, w Wiring, m Means) (*Device, error) {
	d := &Device{Spec: s, node: node, wiring: Wiring{Ports: slices.Clone(w.Ports)}, means: m, binary: s.Binary}
	if s.Kind == None {
		return d, nil
	}
	d.binary = cmp.Or(d.binary, m.Binary)
	if err := d.start(ctx); err != nil {
		return nil, fmt.Errorf("device %s: %w", s, err)
	}
	return d, nil
}

func (d *Device) start(ctx context.Context) (err error) {
	if d.Kind == Minne {
		if d.config, err = d.Spec.config(d.wiring); err != nil {
			return err
		}
	}
	if err := d.acceptRedirects(ctx); err != nil {
		return err
	}
	switch d.Kind {
	case Bridge:
		return d.bridge(ctx)
	case Minne:
		if err := d.ownBridges(ctx); err != nil {
			return err
		}
		err = d.apply(ctx)
	default:
		err = d.address(ctx)
	}
	if err != nil {
		return err
	}
	return d.fill(ctx)
}

// acceptRedirects prepares the ports for frames that the tester's program
// redirects to them. Without a program on it a veth port takes none; GRO makes
// it take them, and is what drivers of network cards do anyway.
func (d *Device) acceptRedirects(ctx context.Context) error {
	for _, p := range d.wiring.Ports {
		if _, err := d.node.Run(ctx, "ethtool", "-K", p.Name, "gro", "on"); err != nil {
			return err
		}
	}
	return nil
}

// apply starts the Minne router and gives it its configuration.
func (d *Device) apply(ctx context.Context) (err error) {
	if d.minne, err = d.node.Minne(d.binary, d.config, ""); err != nil {
		return err
	}
	if err := d.minne.StartDaemon(ctx); err != nil {
		return err
	}
	if _, err := d.minne.Command(ctx, "apply", d.minne.Config); err != nil {
		return fmt.Errorf("%w\ndaemon: %s", err, d.minne.Log(10))
	}
	return nil
}

// address makes the kernel a router.
func (d *Device) address(ctx context.Context) error {
	var lines []string
	for _, p := range d.wiring.Ports {
		for _, a := range p.Addresses {
			line := fmt.Sprintf("address replace %s dev %s", a, p.Name)
			if a.Addr().Is6() {
				line += " nodad"
			}
			lines = append(lines, line)
		}
	}
	if err := d.batch(ctx, "ip", lines); err != nil {
		return err
	}
	_, err := d.node.Run(ctx, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.conf.all.rp_filter=0")
	return err
}

// bridgeName is the name of the bridge's own interface.
const bridgeName = "bridge"

// bridge joins the ports. It learns nothing and floods nothing that trials send: the stations are known.
func (d *Device) bridge(ctx context.Context) error {
	lines := []string{"link add " + bridgeName + " type bridge stp_state 0 mcast_snooping 0", "link set " + bridgeName + " up"}
	for _, p := range d.wiring.Ports {
		lines = append(lines, fmt.Sprintf("link set %s master %s", p.Name, bridgeName))
	}
	if err := d.batch(ctx, "ip", lines); err != nil {
		return err
	}
	var known []string
	for _, p := range d.wiring.Ports {
		known = append(known, fmt.Sprintf("link set dev %s learning off", p.Name))
		for _, s := range p.Stations {
			known = append(known, fmt.Sprintf("fdb replace %s dev %s master static", s.MAC, p.Name))
		}
	}
	slices.Sort(known[1:])
	return d.batch(ctx, "bridge", slices.Compact(known))
}

// ownBridges makes the bridges of a Minne's ports, which it then uses and sets up: it makes none where the kernel
// has no VLANs on bridges, and the figures need none.
func (d *Device) ownBridges(ctx context.Context) error {
	var lines []string
	for _, p := range d.wiring.Ports {
		if p.Bridge != "" {
			lines = append(lines, "link add "+p.Bridge+" type bridge", "link set "+p.Bridge+" up")
		}
	}
	return d.batch(ctx, "ip", lines)
}

// fill gives a router its neighbours and routes, and its bridges the stations: next hops are never heard.
func (d *Device) fill(ctx context.Context) error {
	var lines, stations []string
	for _, p := range d.wiring.Ports {
		for _, s := range p.Stations {
			lines = append(lines, fmt.Sprintf("neighbour replace %s lladdr %s dev %s nud permanent", s.Address, s.MAC, p.network()))
			if p.Bridge != "" {
				stations = append(stations, fmt.Sprintf("fdb replace %s dev %s master static", s.MAC, p.Name))
			}
		}
	}
	if err := d.batch(ctx, "ip", lines); err != nil {
		return err
	}
	slices.Sort(stations) // a station has an address of each family
	if err := d.batch(ctx, "bridge", slices.Compact(stations)); err != nil {
		return err
	}
	d.routes4, d.routes6 = 0, 0
	for i, p := range d.wiring.Ports {
		if err := d.install(ctx, i, p.Routes); err != nil {
			return err
		}
	}
	return nil
}

// batch has iproute2 do many things at once.
func (d *Device) batch(ctx context.Context, command string, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	file := filepath.Join(d.node.Dir, command+".batch")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	_, err := d.node.Run(ctx, command, "-batch", file)
	return err
}

// Install puts more routes through the i-th port into the device. Only routers have routes.
func (d *Device) Install(ctx context.Context, port int, prefixes []netip.Prefix) error {
	if d.Hops() == 0 {
		return nil
	}
	if err := d.install(ctx, port, prefixes); err != nil {
		return fmt.Errorf("device %s: %w", d.Spec, err)
	}
	d.wiring.Ports[port].Routes = append(slices.Clip(d.wiring.Ports[port].Routes), prefixes...)
	return nil
}

func (d *Device) install(ctx context.Context, port int, prefixes []netip.Prefix) error {
	if len(prefixes) == 0 {
		return nil
	}
	routes, err := d.Table(port, prefixes)
	if err != nil {
		return err
	}
	if err := d.Change(ctx, routes); err != nil {
		return fmt.Errorf("install %d routes: %w", len(routes), err)
	}
	for _, p := range prefixes {
		if p.Addr().Is4() {
			d.routes4++
		} else {
			d.routes6++
		}
	}
	return nil
}

// Change adds or replaces routes in the device's kernel.
func (d *Device) Change(ctx context.Context, routes []rib.Route) error {
	return d.node.Do(func() error { return d.means.Load(ctx, routes) })
}

// Table turns prefixes into routes of a routing daemon through the stations behind a port, picked by
// the prefix alone, so that the same table is always the same.
func (d *Device) Table(port int, prefixes []netip.Prefix) ([]rib.Route, error) {
	p := d.wiring.Ports[port]
	index, _, err := d.node.Port(p.network())
	if err != nil {
		return nil, err
	}
	hops := map[bool][]netip.Addr{}
	for _, s := range p.Stations {
		hops[s.Address.Is6()] = append(hops[s.Address.Is6()], s.Address)
	}
	routes := make([]rib.Route, len(prefixes))
	for i, to := range prefixes {
		ipv6 := to.Addr().Is6()
		if len(hops[ipv6]) == 0 {
			return nil, fmt.Errorf("route %s: no next hop of its family behind port %s", to, p.Name)
		}
		hop := rib.Hop{Gateway: hops[ipv6][Spread(to, len(hops[ipv6]))], Interface: index, Weight: 1}
		routes[i] = rib.Route{Prefix: to, Table: rib.TableMain, Type: rib.Unicast, Protocol: unix.RTPROT_BIRD, Hops: []rib.Hop{hop}}
		if ipv6 {
			routes[i].Metric = 1024 // what the kernel takes when none is given
		}
	}
	return routes, nil
}

// Spread picks one of n next hops for a prefix. A real table spread over many
// keeps neighbouring prefixes apart: were all routes to point to one next hop, a
// table could be merged to almost nothing.
func Spread(p netip.Prefix, n int) int {
	h := uint32(2166136261) // FNV-1a
	for _, b := range p.Addr().AsSlice() {
		h = (h ^ uint32(b)) * 16777619
	}
	h = (h ^ uint32(p.Bits())) * 16777619
	return int(h>>16) % n
}

// AwaitReady waits until the device is ready to forward: its ports run, and of a Minne the fast path has every route.
func (d *Device) AwaitReady(ctx context.Context) error {
	if d.Kind == None {
		return ctx.Err()
	}
	err := lab.Until(ctx, readyTime, "the ports to run", func() error { return d.running(ctx) })
	if err != nil {
		return fmt.Errorf("device %s: %w", d.Spec, err)
	}
	if d.Forwarder(false) != ByFastPath {
		return ctx.Err()
	}
	err = lab.Until(ctx, readyTime, "the table in the fast path", func() error { return d.ready(ctx) })
	if err != nil {
		return fmt.Errorf("device %s: %w\ndaemon: %s", d.Spec, err, d.minne.Log(10))
	}
	return nil
}

// running says which port does not run yet: the kernel notices a carrier up to a second late.
func (d *Device) running(ctx context.Context) error {
	argv, want := []string{"ip", "-o", "link", "show"}, " state UP "
	if d.Kind == Bridge {
		argv, want = []string{"bridge", "link", "show"}, " state forwarding "
	}
	out, err := d.node.Run(ctx, argv...)
	if err != nil {
		return err
	}
	for _, p := range d.wiring.Ports {
		for line := range strings.Lines(out) {
			if strings.Contains(line, " "+p.Name+"@") && !strings.Contains(line, want) {
				return fmt.Errorf("port %s: expected%sin %q", p.Name, want, strings.TrimSpace(line))
			}
		}
	}
	return nil
}

// ready says what the fast path does not have yet.
func (d *Device) ready(ctx context.Context) error {
	var fast fastpath.Observed
	if err := d.minne.JSON(ctx, &fast, "show", "fast-path"); err != nil {
		return err
	}
	if fast.Problem != "" {
		return lab.Hopeless{Err: errors.New(fast.Problem)}
	}
	for _, want := range d.wiring.Ports {
		for _, have := range fast.Ports {
			if have.Name == want.Name && have.Mode == "off" && !want.KernelOnly {
				return fmt.Errorf("port %s does not have the fast path: %s", have.Name, have.Why)
			}
		}
	}
	n := 0
	for _, t := range fast.Tables {
		n += t.Prefixes
	}
	if want := d.routes4 + d.routes6; !fast.Ready || n < want {
		return fmt.Errorf("%d of %d prefixes", n, want)
	}
	return nil
}

// Router is the Minne that runs in the device, or nil.
func (d *Device) Router() *lab.Minne { return d.minne }

// Node is where the device runs; nil for a cable.
func (d *Device) Node() *lab.Running { return d.node }

// Target returns the MAC to which frames that enter by a port are sent, given
// the station for which they are meant.
func (d *Device) Target(port int, station net.HardwareAddr) (net.HardwareAddr, error) {
	if d.Hops() == 0 {
		return station, nil
	}
	_, mac, err := d.node.Port(d.wiring.Ports[port].Name)
	return mac, err
}

// Restart kills the daemon, as a crash would, and starts it again.
func (d *Device) Restart(ctx context.Context) error {
	if d.minne == nil {
		return fmt.Errorf("device %s has no daemon that could restart: only minne has one", d.Spec)
	}
	d.minne.KillDaemon()
	return d.minne.StartDaemon(ctx)
}

// Reset takes everything down and builds it again, as after a power cut (RFC 2544
// section 26.6, RFC 6201 section 4.3): forwarding, addresses, neighbours and routes.
func (d *Device) Reset(ctx context.Context) error {
	if d.Kind == None {
		return errors.New("a cable can't be reset")
	}
	if err := d.reset(ctx); err != nil {
		return fmt.Errorf("reset of device %s: %w", d.Spec, err)
	}
	return nil
}

func (d *Device) reset(ctx context.Context) error {
	if d.minne != nil {
		if _, err := d.minne.Command(ctx, "stop", "--all"); err != nil {
			return err
		}
	}
	for _, up := range []bool{false, true} { // the kernel forgets routes and IPv6 addresses of a port that is down
		for _, p := range d.wiring.Ports {
			if err := d.node.SetPort(p.Name, up); err != nil {
				return err
			}
		}
	}
	switch {
	case d.minne != nil:
		if err := d.minne.StartDaemon(ctx); err != nil {
			return err
		}
		if err := lab.Until(ctx, readyTime, "the addresses", func() error { return d.addressed(ctx) }); err != nil {
			return err
		}
	case d.Kind == Bridge:
		return nil
	default:
		if err := d.address(ctx); err != nil {
			return err
		}
	}
	return d.fill(ctx)
}

// addressed says which of the ports' addresses isn't there yet.
func (d *Device) addressed(ctx context.Context) error {
	out, err := d.node.Run(ctx, "ip", "-o", "address", "show", "-tentative")
	if err != nil {
		return err
	}
	for _, p := range d.wiring.Ports {
		for _, a := range p.Addresses {
			if !strings.Contains(out, " "+a.String()+" ") {
				return fmt.Errorf("port %s has no address %s", p.Name, a)
			}
		}
	}
	return nil
}

// Facts is the device as a report describes it.
func (d *Device) Facts(ctx context.Context) (result.Device, error) {
	f := result.Device{Name: d.Spec.String(), Kind: string(d.Kind), Routes4: d.routes4, Routes6: d.routes6}
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return f, fmt.Errorf("kernel version: %w", err)
	}
	f.Version = "Linux " + unix.ByteSliceToString(uname.Release[:])
	if d.minne == nil {
		return f, nil
	}
	said, err := d.minne.Command(ctx, "version")
	if err != nil {
		return f, err
	}
	if words := strings.Fields(said); len(words) > 1 {
		f.Version = words[1]
	}
	f.Config = d.Spec.Config
	sum := sha256.Sum256([]byte(d.config))
	f.ConfigHash = hex.EncodeToString(sum[:])
	f.BinaryHash, err = fileHash(d.binary)
	return f, err
}

func fileHash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
