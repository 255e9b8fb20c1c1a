// SPDX-License-Identifier: Apache-2.0

// Package wireguard gives WireGuard interfaces their keys and peers. The links themselves, addresses and
// routes are the kernel package's work (internal/subsystem/kernel/kind_wireguard.go), which has no secrets.
//
// The same words reach WireGuard in the kernel, by netlink, and the program wireguard-go, by its socket:
// wgctrl speaks both.
//
//   - Only what differs is written, peer by peer: the conversations of the others go on. WireGuard keeps
//     its state when the daemon ends, and a new daemon finds nothing to write.
//   - Where a peer is belongs to WireGuard once the peer has spoken: it may have moved (roaming). The
//     configured endpoint is written when it is new, and again when the peer is silent. Names are looked
//     up beside a commit, never in it.
//   - Every checkEvery the interfaces are compared with the configuration. What another program changed is
//     put back.
package wireguard

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/service"
)

// Name is the task's and the step's.
const Name = "wireguard"

const (
	checkEvery = 5 * time.Second
	// silence is how old a handshake may be before its peer counts as silent: WireGuard makes a new one every two
	// minutes while it has something to send, and throws keys away after three (REJECT_AFTER_TIME).
	silence = 3 * time.Minute
	// lookEvery is how often the name of a silent peer is looked up.
	lookEvery = 30 * time.Second
	// lookLimit bounds one look.
	lookLimit = 10 * time.Second
)

// Service is WireGuard to the other parts.
var Service = service.Descriptor{
	Name:     Name,
	Title:    "WireGuard",
	Openings: openings,
	New: func(h service.Host) service.Running {
		t := New(h.Log)
		r := service.Of(t, Render)
		r.Task, r.Trouble = t, t.Trouble
		r.Returned = func(ctx context.Context, name string) error { return t.returned(name) }
		return r
	},
	Views: []service.View{service.NewView(service.View{
		Path:  "wireguard",
		Short: "Show WireGuard interfaces and their peers",
	}, (*Tunnels).Observe, table)},
}

// openings let peers begin where the configuration says so, and the router begin with those that have an endpoint.
func openings(cfg *config.Config) (list []policy.Opening) {
	udp := []uint8{unix.IPPROTO_UDP}
	for _, name := range slices.Sorted(maps.Keys(cfg.Interfaces)) {
		w := cfg.Interfaces[name].WireGuard
		if w == nil || cfg.Interfaces[name].Disabled {
			continue
		}
		if w.ListenPort != 0 {
			list = append(list, policy.Opening{Text: "WireGuard " + name, Protocols: udp, Port: uint16(w.ListenPort), Interfaces: w.Interfaces})
		}
		for _, port := range w.EndpointPorts() {
			list = append(list, policy.Opening{Text: "WireGuard " + name, Protocols: udp, Port: port, Out: true, Anywhere: true})
		}
	}
	return list
}

// Desired is what the interfaces shall have. It holds keys, and prints none of them.
type Desired struct{ devices map[string]device }

// String and the like: keys are secrets.
func (d Desired) String() string       { return "(keys)" }
func (d Desired) GoString() string     { return "(keys)" }
func (d Desired) LogValue() slog.Value { return slog.StringValue("(keys)") }

// device is one interface.
type device struct {
	private wgtypes.Key
	port    int // 0: any
	peers   map[wgtypes.Key]peer
}

// peer is one other end.
type peer struct {
	name      string
	shared    wgtypes.Key // zero: none
	endpoint  string      // as configured, "" for none
	keepalive time.Duration
	allowed   []netip.Prefix // in order
}

// Render takes the keys from the secrets.
func Render(cfg *config.Config, secrets config.Secrets) (Desired, error) {
	d := Desired{devices: map[string]device{}}
	secret := func(path, name string) (wgtypes.Key, error) {
		value, _ := secrets.Get(name)
		key, err := wgtypes.ParseKey(value)
		if err != nil { // which would repeat bytes of the secret
			return key, fmt.Errorf("%s: the secret %s is not a WireGuard key", path, name)
		}
		return key, nil
	}
	for name, i := range cfg.Interfaces {
		w := i.WireGuard
		if w == nil {
			continue
		}
		path := "interfaces." + name + ".wireguard"
		dev := device{port: w.ListenPort, peers: map[wgtypes.Key]peer{}}
		var err error
		if dev.private, err = secret(path+".private-key", w.PrivateKey); err != nil {
			return Desired{}, err
		}
		for called, p := range w.Peers {
			key, err := wgtypes.ParseKey(p.PublicKey)
			if err != nil {
				return Desired{}, fmt.Errorf("%s.peers.%s.public-key: %w", path, called, err)
			}
			to := peer{name: called, endpoint: p.Endpoint, keepalive: p.Keepalive.Std()}
			if p.PresharedKey != "" {
				if to.shared, err = secret(path+".peers."+called+".preshared-key", p.PresharedKey); err != nil {
					return Desired{}, err
				}
			}
			for _, a := range p.Allowed {
				to.allowed = append(to.allowed, a.Prefix)
			}
			slices.SortFunc(to.allowed, inOrder)
			dev.peers[key] = to
		}
		d.devices[name] = dev
	}
	return d, nil
}

// Tunnels are the WireGuard interfaces of an instance.
type Tunnels struct {
	log   *slog.Logger
	open  func() (control, error)
	find  func(context.Context, string) (netip.Addr, error) // of a name
	ready chan struct{}
	wake  chan struct{}

	mu      sync.Mutex
	desired Desired
	applied bool
	looked  map[wgtypes.Key]time.Time // when the endpoint of a peer was looked up last
	trouble map[string]string         // what does not work, by interface or peer
}

// New returns the interfaces of an instance. Nothing is done before the first Apply.
func New(log *slog.Logger) *Tunnels {
	return &Tunnels{log: log.With("service", Name), open: openControl, find: lookup, ready: make(chan struct{}),
		wake: make(chan struct{}, 1), looked: map[wgtypes.Key]time.Time{}, trouble: map[string]string{}}
}

// String names the task.
func (t *Tunnels) String() string { return Name }

// Ready is closed once Run looks after the interfaces.
func (t *Tunnels) Ready() <-chan struct{} { return t.ready }

// Plan says which keys and peers Apply would change, by their names.
func (t *Tunnels) Plan(_ context.Context, d Desired) (changes []plan.Change, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err = t.each(d, true, func(_ control, name string, steps []step) error {
		for _, s := range steps {
			changes = append(changes, plan.Change{Subsystem: "services", Action: s.action, Object: s.object})
		}
		return nil
	})
	return changes, err
}

// Apply makes the interfaces as desired. Peers that do not change notice nothing.
func (t *Tunnels) Apply(_ context.Context, d Desired) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.each(d, false, t.write); err != nil {
		return err
	}
	t.desired, t.applied = d, true
	clear(t.looked)
	clear(t.trouble)
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return nil
}

// each compares every interface with what is desired; one that is not there yet has nothing when absent says so,
// and fails otherwise. The caller holds mu.
func (t *Tunnels) each(d Desired, absent bool, do func(c control, name string, steps []step) error) error {
	if len(d.devices) == 0 {
		return nil
	}
	c, err := t.open()
	if err != nil {
		return fmt.Errorf("wireguard: %w", err)
	}
	defer c.Close()
	for _, name := range slices.Sorted(maps.Keys(d.devices)) {
		now, err := current(c, name)
		if err != nil {
			return err
		}
		if now == nil && !absent {
			return fmt.Errorf("WireGuard interface %s: there is no such interface of WireGuard", name)
		}
		if err := do(c, name, d.devices[name].compare(name, now, t.desired.devices[name])); err != nil {
			return err
		}
	}
	return nil
}

// write takes the steps of one interface.
func (t *Tunnels) write(c control, name string, steps []step) error {
	if len(steps) == 0 {
		return nil
	}
	if err := c.ConfigureDevice(name, together(steps)); err != nil {
		return fmt.Errorf("configure WireGuard interface %s: %w", name, err)
	}
	return nil
}

// returned gives an interface that came back as another link what it has to have.
func (t *Tunnels) returned(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	dev, ours := t.desired.devices[name]
	if !t.applied || !ours {
		return nil
	}
	return t.each(Desired{devices: map[string]device{name: dev}}, false, t.write)
}

// Trouble says what does not work.
func (t *Tunnels) Trouble(context.Context) map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.trouble)
}
