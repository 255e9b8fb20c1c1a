// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"minne/internal/base/plan"
)

// Settings that somebody changes. The kernel announces forwarding and a few others (netconf), which
// the Watcher follows; the rest changes in silence and is read at the slow tick.

// driftReads bounds the settings that one look reads: about 1.5 ms of one core. A router with
// more interfaces than that goes on where it stopped.
const driftReads = 512

// Drifted says whether something changed that nobody announces, or another try is due: a cheap look for the
// slow tick, after which Reassert is called. It does not wait: while an apply is at work, nothing has drifted.
func (k *Kernel) Drifted() bool {
	if !k.mu.TryLock() {
		return false
	}
	defer k.mu.Unlock()
	if k.last == nil || k.unsettled {
		return false
	}
	if k.seen.due(time.Now()) {
		return true
	}
	if k.own.OwnHost && k.last.Hostname != "" && !k.seen.held("host name") {
		if now, err := k.system.hostname(); err == nil && now != k.last.Hostname {
			return true
		}
	}
	return k.settingsDrifted() || k.proxiesDrifted() || k.farEndsDrifted() || k.hardwareDrifted()
}

// hardwareDrifted looks at one port, the next of them each time.
func (k *Kernel) hardwareDrifted() bool {
	r := k.round(*k.last)
	var ports []*bound
	for _, i := range k.last.Interfaces {
		if index := k.seen.at[i.Name]; i.Kind.Port && index != 0 && (r.desired.CPUs != nil || i.Ethernet != nil) {
			ports = append(ports, &bound{DesiredInterface: i, link: &link{Index: index, Name: i.Name}})
		}
	}
	if len(ports) == 0 {
		return false
	}
	k.port = (k.port + 1) % len(ports)
	r.bound = ports[k.port : k.port+1]
	if err := errors.Join(r.hardware(), r.cpus()); err != nil {
		return false // it has gone, or the next apply says so
	}
	return slices.ContainsFunc(r.steps, func(s step) bool { return s.port != "" && !k.seen.held(s.change.Object) })
}

func (k *Kernel) settingsDrifted() bool {
	list := k.last.Sysctls
	for range min(driftReads, len(list)) {
		k.cursor = (k.cursor + 1) % len(list)
		s := list[k.cursor]
		if s.Machine && !k.own.OwnHost {
			continue
		}
		now, ok, err := k.system.setting(s.Path)
		if err == nil && ok && now != k.former.wanted(s, now) && !k.seen.held(settingsOf(s.Interface)) {
			return true
		}
	}
	return false
}

// proxiesDrifted says whether an entry for a translated address went: the kernel tells nobody.
func (k *Kernel) proxiesDrifted() bool {
	if len(k.last.Proxies) == 0 {
		return false
	}
	now, err := k.system.proxies(context.Background())
	if err != nil {
		return false
	}
	there := map[proxy]bool{}
	for _, p := range now {
		there[p] = true
	}
	for _, p := range k.last.Proxies {
		if index := k.seen.at[p.Interface]; index != 0 && !there[proxy{index, p.Address}] {
			return true
		}
	}
	return false
}

// forwardingSettings are the switches of forwarding: the two of the namespace, which copy themselves to
// every interface, and those of an interface.
func forwardingSettings(name string) [2]string {
	if name == "" {
		return [2]string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"}
	}
	return [2]string{"net/ipv4/conf/" + name + "/forwarding", "net/ipv6/conf/" + name + "/forwarding"}
}

// forwarding compares the switches of forwarding with what they were set to last.
func (r *round) forwarding() error {
	if r.forward == nil {
		return nil
	}
	value := "0"
	if *r.forward {
		value = "1"
	}
	var copied [2]bool // the namespace's switch sets those of the interfaces, too
	look := func(port, name string) error {
		for family, path := range forwardingSettings(name) {
			now, ok, err := r.system.setting(path)
			if err != nil {
				return err
			}
			if !ok || now == value || copied[family] {
				continue
			}
			copied[family] = name == ""
			words := Sysctl{Path: strings.Replace(path, "ip_forward", "forwarding", 1)}.words()
			object := words
			if port != "" {
				object += " of " + port
			}
			r.add(plan.Change{Action: plan.Modify, Object: object, From: now, To: value},
				func(context.Context) error { return r.system.setSetting(path, value) }).
				of(port, changedTo(words, port, now))
		}
		return nil
	}
	if err := look("", ""); err != nil {
		return err
	}
	for _, b := range r.bound {
		if b.link == nil || b.missing {
			continue
		}
		if err := look(b.Name, b.sysctlName()); err != nil {
			return err
		}
	}
	return nil
}

// Forwarding switches IPv4 and IPv6 forwarding of the namespace and of the configured interfaces, and
// from then on Reassert keeps it so. The router calls it last, when filters, addresses and routes stand.
func (k *Kernel) Forwarding(ctx context.Context, on bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if on && k.unchecked != nil {
		return fmt.Errorf("forwarding stays off: the configured anti-spoofing checks are not in force: %w", k.unchecked)
	}
	k.forward = &on
	value := "0"
	if on {
		value = "1"
	}
	names := []string{""}
	if k.last != nil {
		for _, i := range k.last.Interfaces {
			names = append(names, i.Name) // its own may have been changed since
		}
	}
	for _, name := range names {
		for _, path := range forwardingSettings(name) {
			if err := ctx.Err(); err != nil {
				return err
			}
			now, ok, err := k.system.setting(path)
			if err != nil {
				return err
			}
			if !ok || now == value {
				continue
			}
			if err := k.system.setSetting(path, value); err != nil {
				return err
			}
			k.writes.Add(1)
		}
	}
	return nil
}
