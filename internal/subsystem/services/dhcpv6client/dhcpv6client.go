// SPDX-License-Identifier: Apache-2.0

// Package dhcpv6client gets IPv6 from providers, by dhcpcd, one for each interface: addresses and a default route by
// router advertisements (RFC 4861, RFC 4862) and DHCPv6, and a prefix for inside interfaces (RFC 8415).
//
// Why dhcpcd: it does both protocols with all their timers, is in Debian, and is kept well. With --noconfigure it only
// talks and calls a script, so addresses and routes are the kernel package's work here, as those of DHCP for IPv4 are.
// The library insomniacslk/dhcp makes packets and leaves the timers to its caller; odhcp6c is not in Debian.
//
// The script writes what it hears into files, as a whole: "ra" has what routers advertise, "lease" what DHCPv6 gave. The
// Client follows those files. dhcpcd goes on while the daemon is away, and a new daemon reads them before it looks at
// the kernel for the first time. What nobody renewed ends by the clock since boot.
package dhcpv6client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/boottime"
	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
)

const (
	binary = "dhcpcd"
	prefix = "dhcpv6-" // of the programs' directories; the interface's name follows
)

// start runs dhcpcd, which writes over its own command, so this script is the process that a later daemon knows again by
// the pid file. dhcpcd keeps its identifier, leases and sockets in fixed places, which two routers on one machine
// would share: each has its own there. The script waits for an interface that is not there. That of a PPPoE session comes
// and goes, dhcpcd with it, and has no MAC address: the identifier (DUID) is made of that of the interface below, the
// second argument. dhcpcd begins when the session has its link-local address: of one that comes later it takes the other end's
// (IFA_ADDRESS of netlink) for the interface's, and waits for ever.
const start = `#!/bin/sh
# Made by minne.
cd "${0%/*}" || exit 1
mkdir -p state run /var/lib/dhcpcd /run/dhcpcd || exit 1
exec unshare --mount sh -c '
	mount --make-rprivate / && mount --bind state /var/lib/dhcpcd && mount --bind run /run/dhcpcd || exit 1
	old=$(cat child 2>/dev/null)
	while [ -n "$old" ] && [ "$(cat "/proc/$old/comm" 2>/dev/null)" = dhcpcd ]; do
		kill "$old"
		sleep 1
	done
	ready() {
		[ -n "$2" ] || { [ -e "/proc/sys/net/ipv6/conf/$1" ]; return; }
		while read -r _ _ _ scope flags name; do # link-local is scope 20; an address with the flag 40 is tentative
			[ "$scope $name" = "20 $1" ] && [ $((0x$flags & 0x40)) = 0 ] && return
		done </proc/net/if_inet6
		return 1
	}
	trap "kill \$child; wait; exit 0" TERM
	echo $$ >pid
	while :; do
		if ready "$@"; then
			if [ -n "$2" ]; then
				mkdir -p sys && mount -t sysfs minne sys # of this network namespace
				read -r mac <"sys/class/net/$2/address" && echo "00:03:00:01:$mac" >state/duid
				umount sys
			fi
			dhcpcd --nobackground --noconfigure --config "$PWD/config" --script "$PWD/event" "$1" &
			child=$!
			echo $child >child
			wait $child
			[ -n "$2" ] || exit 1
		fi
		sleep 1 &
		child=$!
		wait $child
	done
' "$PWD/start" "$1" "$2"
`

// event is what dhcpcd calls. That dhcpcd gives a lease up ("EXPIRE6") ends nothing: it does so ten seconds after it could
// not be rebound, long before the time is up that the provider gave.
const event = `#!/bin/sh
# Made by minne. Called by dhcpcd with what it knows in its environment; writes it down as a whole.
cd "${0%/*}" || exit 1
keep() {
	read -r up _ </proc/uptime
	{
		echo "at=$up"
		env | grep -E "^($1)[a-z0-9_]*="
	} >"$2.new" && mv "$2.new" "$2"
}
case $reason in
ROUTERADVERT) keep 'nd[0-9]+_' ra ;;
BOUND6 | RENEW6 | REBIND6 | REBOOT6 | INFORM6) keep 'new_dhcp6_' lease ;;
esac
exit 0
`

// Service is IPv6 from providers to the other parts.
var Service = service.Descriptor{
	Name:  "dhcpv6-client",
	Title: "DHCPv6",
	Programs: []service.Program{{Name: binary, For: "DHCPv6 client, prefix delegation", Package: "dhcpcd-base", Version: []string{binary, "--version"},
		Image: []string{"usr/sbin/dhcpcd"}}},
	Openings: openings,
	New: func(h service.Host) service.Running {
		c := New(h.RunDir, h.Log)
		r := service.Of(c, func(cfg *config.Config, _ config.Secrets) (Desired, error) { return Render(cfg, h.RunDir), nil })
		r.Task, r.Stop, r.Trim = c, c.Stop, c.TrimOutput
		r.States, r.Down, r.Returned = c.States, c.Down, c.Restart
		return r
	},
	Views: []service.View{service.NewView(service.View{
		Path:  "ipv6 prefixes",
		Short: "Show the prefixes that providers delegate",
	}, (*Client).Observe, table)},
}

// openings let servers answer: a request to all servers makes no connection (RFC 8415, section 7.2).
func openings(cfg *config.Config) []policy.Opening {
	var on []string
	for name, i := range cfg.Interfaces {
		if i.DHCPv6 != nil && !i.Disabled {
			on = append(on, name)
		}
	}
	udp := []uint8{unix.IPPROTO_UDP}
	link := []netip.Prefix{netip.MustParsePrefix("fe80::/10")}
	return []policy.Opening{
		{Text: "DHCPv6 client", Protocols: udp, Hosts: link, Port: 546, Interfaces: on},
		{Text: "DHCPv6 client", Protocols: udp, From: 546, Port: 547, Interfaces: on, Out: true},
	}
}

// Inside is an interface that gets a network of the prefix.
type Inside struct {
	Name   string
	Subnet int
}

// Desired is which interfaces ask, and what of their prefix goes where.
type Desired struct {
	Interfaces map[string][]Inside
	programs   map[string]program.Desired
}

// Render says what runs; runDir is the instance's run directory.
func Render(cfg *config.Config, runDir string) Desired {
	d := Desired{Interfaces: map[string][]Inside{}, programs: map[string]program.Desired{}}
	for name, i := range cfg.Interfaces {
		if i.DHCPv6 == nil || i.Disabled {
			continue
		}
		d.Interfaces[name] = nil
		dir, below := program.Dir(runDir, prefix+name), ""
		if i.PPPoE != nil {
			below = i.PPPoE.Parent
		}
		d.programs[name] = program.Desired{
			Object: "DHCPv6 client on " + name,
			Argv:   []string{"sh", filepath.Join(dir, "start"), name, below},
			Files:  map[string]string{"config": text(name, i.DHCPv6), "start": start, "event": event},
			Modes:  map[string]fs.FileMode{"start": 0o755, "event": 0o755},
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Interfaces)) {
		if p := cfg.Interfaces[name].Delegated; p != nil && d.programs[p.From].Argv != nil {
			d.Interfaces[p.From] = append(d.Interfaces[p.From], Inside{name, p.Subnet})
		}
	}
	return d
}

// text is dhcpcd's configuration. The identifier made of the MAC address is the same after each boot, so that the
// provider gives the same prefix again.
func text(name string, c *config.DHCPv6) string {
	var b strings.Builder
	b.WriteString("# Made by minne; changes here are lost.\nduid ll\nipv6only\nnoipv6rs\noption dhcp6_name_servers\nallowinterfaces " + name +
		"\ninterface " + name + "\n\tipv6rs\n\tia_na 1\n\tia_pd 2")
	if c.PrefixLength != 0 {
		fmt.Fprintf(&b, "/::/%d", c.PrefixLength)
	}
	b.WriteString("\n")
	return b.String()
}

// Learner takes what providers give. It is called for one interface after the other.
type Learner interface {
	// IPv6 tells what the provider of an interface gives, nil for nothing.
	IPv6(ctx context.Context, name string, g *Given) error
	// IPv6Servers tells the DNS servers of all providers.
	IPv6Servers([]service.Server) error
}

// Given is what a provider gives, as the router uses it.
type Given struct {
	Addresses map[string][]netip.Prefix // by interface: the one towards the provider, and those inside
	Router    netip.Addr                // link-local; invalid for none
	Prefix    netip.Prefix              // delegated; invalid for none
	DNS       []netip.Addr
}

func (g *Given) same(o *Given) bool {
	if g == nil || o == nil {
		return g == o
	}
	return maps.EqualFunc(g.Addresses, o.Addresses, slices.Equal) && g.Router == o.Router && g.Prefix == o.Prefix && slices.Equal(g.DNS, o.DNS)
}

// Client is the clients of an instance.
type Client struct {
	*program.Fleet
	log    *slog.Logger
	learn  Learner
	clock  func() time.Duration
	suffix func(name string) (netip.Addr, bool) // an interface's link-local address

	mu      sync.Mutex
	desired Desired
	applied bool
	heard   map[string]heard
	given   map[string]*Given
	faults  map[string]string // interface → what can't be used
}

// New returns the clients of an instance. Nothing runs before the first Apply.
func New(runDir string, log *slog.Logger) *Client {
	return &Client{Fleet: program.NewFleet(runDir, "interface", prefix, log), log: log, clock: boottime.Now, suffix: linkLocal,
		heard: map[string]heard{}, given: map[string]*Given{}, faults: map[string]string{}}
}

// String names the task.
func (c *Client) String() string { return "dhcpv6-client" }

// Plan says which clients would begin and end.
func (c *Client) Plan(ctx context.Context, d Desired) ([]plan.Change, error) {
	return c.Fleet.Plan(ctx, d.programs)
}

// Apply makes the clients those that are desired.
func (c *Client) Apply(ctx context.Context, d Desired) error {
	c.mu.Lock()
	c.desired, c.applied = d, true
	err := c.Fleet.Apply(ctx, d.programs)
	c.mu.Unlock()
	return errors.Join(err, c.look(ctx))
}

// Stop ends all clients. What they got stays, like what the operator wrote.
func (c *Client) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.desired, c.applied = Desired{}, false
	return c.Fleet.Apply(ctx, nil)
}

// LearnBy says who takes what providers give, once, before anything is put in place. What an earlier daemon's clients
// wrote down is taken with the first Apply, which knows where it goes.
func (c *Client) LearnBy(learn Learner) { c.learn = learn }

// Run follows the files until ctx ends. The clients go on.
func (c *Client) Run(ctx context.Context) error {
	return c.Follow(ctx, func(ctx context.Context) time.Duration {
		if err := c.look(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("IPv6 of the provider", "error", err)
		}
		return c.nextEnd()
	}, "ra", "lease")
}

// read returns what the files of an interface say; one that is not there says nothing.
func (c *Client) read(name string) (h heard) {
	if values, err := c.Read(name, "ra"); err == nil {
		h.advertised(values)
	}
	if values, err := c.Read(name, "lease"); err == nil {
		h.leased(values)
	}
	return h
}

// nextEnd is the time until the next thing ends that was given; 0 for never.
func (c *Client) nextEnd() (next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	for _, h := range c.heard {
		for _, end := range h.ends() {
			if left := end - now + time.Millisecond; left > 0 && (next == 0 || left < next) {
				next = left
			}
		}
	}
	return next
}

// look reads what the clients wrote down and hands on what has changed.
func (c *Client) look(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.applied || c.learn == nil {
		return nil
	}
	var failures []error
	changed := false
	for _, name := range slices.Sorted(maps.Keys(c.given)) {
		if _, wanted := c.desired.Interfaces[name]; !wanted {
			delete(c.heard, name)
			delete(c.given, name)
			delete(c.faults, name)
			changed = true
			failures = append(failures, c.learn.IPv6(ctx, name, nil))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.desired.Interfaces)) {
		now, fault := c.use(name, c.desired.Interfaces[name])
		c.faults[name] = fault
		before := c.given[name]
		if before.same(now) {
			continue
		}
		if before == nil {
			before = &Given{}
		}
		if !before.same(now) { // nothing after nothing is no news
			c.log.Info("IPv6 of the provider", "interface", name, "addresses", now.Addresses[name], "prefix", now.Prefix, "router", now.Router, "dns", now.DNS)
		}
		c.given[name], changed = now, true
		if err := c.learn.IPv6(ctx, name, now); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
		}
	}
	if changed {
		failures = append(failures, c.learn.IPv6Servers(c.dns()))
	}
	return errors.Join(failures...)
}

// use is what is made of that which an interface heard; fault says what can't be used.
func (c *Client) use(name string, inside []Inside) (g *Given, fault string) {
	now := c.clock()
	h := c.read(name)
	c.heard[name] = h
	g = &Given{Addresses: map[string][]netip.Prefix{}}
	for _, a := range h.addresses {
		if a.end > now {
			g.Addresses[name] = append(g.Addresses[name], a.prefix)
		}
	}
	if own, ok := c.suffix(name); ok {
		for _, n := range h.networks {
			if n.end > now && n.prefix.Bits() == 64 {
				g.Addresses[name] = append(g.Addresses[name], netip.PrefixFrom(join(n.prefix, own), 64))
			}
		}
	}
	for _, r := range h.routers {
		if r.end > now && !g.Router.IsValid() {
			g.Router = r.address
		}
	}
	g.DNS = h.dns(now)
	best, ok := h.delegated(now)
	if !ok {
		if len(inside) > 0 && len(h.addresses)+len(h.networks)+len(h.routers) > 0 {
			fault = "the provider delegates no prefix"
		}
		return g, fault
	}
	g.Prefix = best.prefix
	for _, i := range inside {
		network, ok := subnet(best.prefix, i.Subnet)
		if !ok {
			fault = fmt.Sprintf("the provider delegates %s, which has no network %d for %s", best.prefix, i.Subnet, i.Name)
			continue
		}
		g.Addresses[i.Name] = []netip.Prefix{netip.PrefixFrom(network.Addr().Next(), 64)}
	}
	return g, fault
}

// dns are the DNS servers of all providers, in the order of the interfaces' names. The caller holds mu.
func (c *Client) dns() (list []service.Server) {
	for _, name := range slices.Sorted(maps.Keys(c.given)) {
		for _, a := range c.given[name].DNS {
			list = append(list, service.Server{Interface: name, Address: a})
		}
	}
	return list
}

// States are the states of the clients.
func (c *Client) States() (list []program.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.desired.Interfaces)) {
		list = append(list, c.State(name))
	}
	return list
}

// Down says what can't be used of that which providers give.
func (c *Client) Down() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.faults)) {
		if c.faults[name] != "" {
			list = append(list, "IPv6 on "+name+": "+c.faults[name])
		}
	}
	return list
}
