// SPDX-License-Identifier: Apache-2.0

// Package dhcpclient gets addresses for interfaces from DHCP servers, by busybox's
// udhcpc, one for each interface.
//
// Why udhcpc: the state machine of RFC 2131 with its timers (renew, rebind, expire,
// NAK, decline) has been in use in it on millions of routers for twenty years; it is on
// the router's image anyway, as busybox is, and takes 0.5 MB of memory. The Go
// library (insomniacslk/dhcp) makes the packets but leaves that state machine to
// its caller and brings six modules; dhcpcd and dhclient want to set addresses and
// routes themselves, which is the kernel package's work here.
//
// udhcpc only talks: what it hears goes through a script into a file, as a whole.
// The Client follows those files and hands each lease on (see kernel.Learn), so:
//
//   - The lease is kept while the daemon is away: udhcpc goes on renewing, address
//     and route stay in the kernel, and a new daemon reads the file before it looks
//     at the kernel for the first time.
//   - A lease ends when udhcpc says so, or when its time by the clock since boot is
//     over and no udhcpc renewed it.
package dhcpclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
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
	binary = "udhcpc"
	prefix = "dhcp-" // of the programs' directories; the interface's name follows
)

// script is what udhcpc calls with an event and the lease in its environment. A client that
// begins says "deconfig" too, only to say that it has nothing yet: what the one before it leased holds on until
// its time is over.
const script = `#!/bin/sh
# Made by minne. Called by udhcpc with an event; writes down the lease as a whole.
cd "${0%/*}" || exit 1
case $1 in
deconfig)
	if [ "$(cat client 2>/dev/null)" = "$PPID" ]; then rm -f lease; fi
	echo "$PPID" >client
	;;
bound | renew)
	echo "$PPID" >client
	read -r up _ </proc/uptime
	{
		echo "at=$up"
		for v in interface ip mask router dns domain staticroutes lease serverid; do
			eval "printf '%s=%s\n' $v \"\$$v\""
		done
	} >lease.new && mv lease.new lease
	;;
esac
`

// Service is the DHCP client to the other parts.
var Service = service.Descriptor{
	Name:  "dhcp-client",
	Title: "DHCP",
	// The image has udhcpc in its busybox.
	Programs: []service.Program{{Name: binary, For: "DHCP client", Package: "udhcpc", Version: []string{binary, "--help"}}},
	Openings: openings,
	New: func(h service.Host) service.Running {
		c := New(h.RunDir, h.Log)
		r := service.Of(c, func(cfg *config.Config, _ config.Secrets) (Desired, error) { return Render(cfg, h.RunDir) })
		r.Task, r.Stop, r.Trim = c, c.Stop, c.TrimOutput
		r.States, r.Down, r.Returned = c.States, c.Down, c.Restart
		return r
	},
}

// openings let servers answer. DHCP's broadcasts make no connections: both ways are opened.
func openings(cfg *config.Config) []policy.Opening {
	var on []string
	for name, i := range cfg.Interfaces {
		if i.DHCP.On() {
			on = append(on, name)
		}
	}
	udp := []uint8{unix.IPPROTO_UDP}
	return []policy.Opening{
		{Text: "DHCP client", Protocols: udp, From: 67, Port: 68, Interfaces: on, IPv4: true}, // RFC 2131 section 4.1
		{Text: "DHCP client", Protocols: udp, From: 68, Port: 67, Interfaces: on, IPv4: true, Out: true},
	}
}

// Desired is which interfaces lease.
type Desired struct {
	Interfaces map[string]Leasing
	programs   map[string]program.Desired
}

// Render says what runs; runDir is the instance's run directory.
func Render(cfg *config.Config, runDir string) (Desired, error) {
	d := Desired{Interfaces: map[string]Leasing{}, programs: map[string]program.Desired{}}
	in := cfg.VRFs()
	for name, i := range cfg.Interfaces {
		if !i.DHCP.On() || i.Disabled {
			continue
		}
		d.Interfaces[name] = renderLeasing(cfg, name, in)
		d.programs[name] = render(name, cfg.System.Hostname, program.Dir(runDir, prefix+name))
	}
	return d, nil
}

// render is udhcpc for one interface. It asks for broadcast replies (-B): to an address that is not ours yet,
// a reply by unicast is a packet that the fast path would forward or drop. It
// looks for others that have the address (-a, RFC 2131 4.4.1), and never gives up.
func render(name, hostname, dir string) program.Desired {
	argv := []string{binary, "-f", "-i", name, "-p", filepath.Join(dir, "pid"), "-s", filepath.Join(dir, "event"),
		"-B", "-a500", "-t", "4", "-T", "2", "-A", "10", "-O", "staticroutes"}
	if hostname != "" {
		argv = append(argv, "-x", "hostname:"+hostname)
	}
	return program.Desired{
		Object: "DHCP client on " + name,
		Argv:   argv,
		Files:  map[string]string{"event": script},
		Modes:  map[string]fs.FileMode{"event": 0o755},
	}
}

// Learner takes what the servers give. It is called for one lease after the other.
type Learner interface {
	// Lease tells what an interface was leased, nil for nothing.
	Lease(ctx context.Context, name string, lease *Lease) error
	// Servers tells the DNS servers of all leases.
	Servers([]service.Server) error
}

// Client is the DHCP clients of an instance.
type Client struct {
	*program.Fleet
	log   *slog.Logger
	learn Learner
	clock func() time.Duration

	mu      sync.Mutex
	desired Desired
	applied bool
	leases  map[string]*Lease
	refused map[string]string  // interface → why its lease is not used
	again   map[string]*asking // interface → when it is asked for another
}

// New returns the clients of an instance. Nothing runs before the first Apply.
func New(runDir string, log *slog.Logger) *Client {
	return &Client{Fleet: program.NewFleet(runDir, "interface", prefix, log), log: log, clock: boottime.Now,
		leases: map[string]*Lease{}, refused: map[string]string{}, again: map[string]*asking{}}
}

// String names the task.
func (c *Client) String() string { return "dhcp-client" }

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

// Restart begins anew with the client of an interface whose link is another one than before. What it was
// leased is kept until the new client hears of something else. Without a client it does nothing.
func (c *Client) Restart(ctx context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, wanted := c.desired.programs[name]; !wanted {
		return nil
	}
	return c.Fleet.Restart(ctx, name)
}

// Stop ends all clients. Their addresses stay, like those that the operator wrote.
func (c *Client) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.desired, c.applied = Desired{}, false
	return c.Fleet.Apply(ctx, nil)
}

// LearnBy says who takes what the servers give, once, before anything is put in place, and hands on the leases that
// clients of an earlier daemon hold.
func (c *Client) LearnBy(ctx context.Context, learn Learner) error {
	c.mu.Lock()
	c.learn = learn
	for _, name := range c.Known() {
		if lease, err := c.read(name); err == nil && lease.left(c.clock()) > 0 {
			c.leases[name] = lease
		}
	}
	defer c.mu.Unlock()
	var failures []error
	for name, lease := range c.leases {
		failures = append(failures, c.learn.Lease(ctx, name, lease))
	}
	return errors.Join(append(failures, c.learn.Servers(c.dns()))...)
}

// Run follows the leases until ctx ends. The clients go on.
func (c *Client) Run(ctx context.Context) error {
	return c.Follow(ctx, func(ctx context.Context) time.Duration {
		c.askAgain(ctx)
		if err := c.look(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("lease", "error", err)
		}
		return c.nextEnd()
	}, "lease")
}

// nextEnd is the time until the next lease ends, or a server is to be asked again; 0 for never.
func (c *Client) nextEnd() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var left []time.Duration
	for _, l := range c.leases {
		if !l.forever() {
			left = append(left, l.left(c.clock()))
		}
	}
	for _, a := range c.again {
		left = append(left, a.at-c.clock())
	}
	if len(left) == 0 {
		return 0
	}
	return max(slices.Min(left), time.Millisecond)
}

// look reads what the clients wrote down and hands on what has changed.
func (c *Client) look(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.applied {
		return nil
	}
	var failures []error
	names := maps.Clone(c.desired.Interfaces)
	for name := range c.leases {
		if _, wanted := names[name]; !wanted {
			names[name] = Leasing{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		leasing, wanted := c.desired.Interfaces[name]
		if err := c.lookAt(ctx, name, leasing, wanted); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(failures...)
}

func (c *Client) lookAt(ctx context.Context, name string, leasing Leasing, wanted bool) error {
	var now *Lease
	if wanted {
		lease, err := c.read(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil && lease.left(c.clock()) > 0 {
			now = lease
		}
	}
	refused := c.refused[name]
	delete(c.refused, name)
	if now != nil {
		if why := leasing.refuses(now.Address); why != "" {
			c.refused[name] = why
			c.wait(name)
			now = nil
		} else {
			leasing.sift(now, c.leasedElsewhere(name))
		}
	}
	if c.refused[name] == "" {
		delete(c.again, name)
	}
	before := c.leases[name]
	if before.same(now) && c.refused[name] == refused {
		if now != nil {
			c.leases[name] = now // renewed
		}
		return nil
	}
	switch {
	case now != nil:
		c.log.Info("leased", "interface", name, "address", now.Address, "routes", now.Routes, "dns", now.DNS, "server", now.Server, "seconds", now.Seconds)
		if len(now.Refused) > 0 {
			c.log.Warn("routes of a DHCP server refused", "interface", name, "routes", now.Refused, "server", now.Server)
		}
	case c.refused[name] != "":
		c.log.Error("lease refused", "interface", name, "reason", c.refused[name])
	case before != nil:
		c.log.Warn("lease ended", "interface", name, "address", before.Address)
	}
	if now == nil {
		delete(c.leases, name)
	} else {
		c.leases[name] = now
	}
	return errors.Join(c.learn.Lease(ctx, name, now), c.learn.Servers(c.dns()))
}

func (c *Client) read(name string) (*Lease, error) {
	values, err := c.Read(name, "lease")
	if err != nil {
		return nil, err
	}
	return parse(values)
}

// States are the states of the clients.
func (c *Client) States() (list []program.State) {
	for _, o := range c.Observe() {
		list = append(list, o.Client)
	}
	return list
}

// Down says which leases can't be used.
func (c *Client) Down() (list []string) {
	for _, o := range c.Observe() {
		if o.Refused != "" {
			list = append(list, "DHCP lease on "+o.Interface+": "+o.Refused)
		}
	}
	return list
}

// Observed is the lease of one interface.
type Observed struct {
	Interface string        `json:"interface"`
	Client    program.State `json:"client"`
	Lease     *Lease        `json:"lease,omitempty"`
	Left      string        `json:"left,omitempty"`    // time until it ends unless renewed
	Refused   string        `json:"refused,omitempty"` // why the lease is not used
}

// Observe says what is leased.
func (c *Client) Observe() (list []Observed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.desired.Interfaces)) {
		o := Observed{Interface: name, Lease: c.leases[name], Refused: c.refused[name], Client: c.State(name)}
		if o.Lease != nil && !o.Lease.forever() {
			o.Left = o.Lease.left(c.clock()).Round(time.Second).String()
		}
		list = append(list, o)
	}
	return list
}

// dns are the DNS servers of all leases, in the order of the interfaces' names.
func (c *Client) dns() (list []service.Server) {
	for _, name := range slices.Sorted(maps.Keys(c.leases)) {
		for _, a := range c.leases[name].DNS {
			list = append(list, service.Server{Interface: name, Address: a})
		}
	}
	return list
}
