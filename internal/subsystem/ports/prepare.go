// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Making a port ready for measuring, and putting back what was changed:
//
//   - up;
//   - promiscuous, so that frames to the MAC addresses of the device's next hops arrive;
//   - without pause frames, which would let the device slow the generator down (RFC 2544 wants the
//     offered load offered) and the tester slow the device down;
//   - without GRO and LRO, which make one frame out of several, and without taking VLAN tags off
//     frames, which XDP then can't see.
//
// A setting that a driver doesn't know or won't change is left and told.

// Prepared is a port that is ready, until Restore.
type Prepared struct {
	Changed []string // what was changed, in words
	Refused []string // what the driver left as it was, with its reason

	name string
	undo []func() error
}

// Prepare makes a port ready; AwaitCarrier should follow, for some drivers negotiate anew. When it
// fails everything is as it was. Restore must be called in the same network namespace.
func Prepare(name string) (*Prepared, error) {
	link, err := linkNamed(name)
	if err != nil {
		return nil, err
	}
	name = link.Attrs().Name // it may have been given another name of it
	p := &Prepared{name: name}
	d, err := open(name)
	if err != nil {
		return nil, err
	}
	defer d.close()
	for _, step := range []func() error{
		func() error { return p.flag(link, unix.IFF_UP, "up", netlink.LinkSetUp, netlink.LinkSetDown) },
		func() error {
			return p.flag(link, unix.IFF_PROMISC, "promiscuous", netlink.SetPromiscOn, netlink.SetPromiscOff)
		},
	} {
		if err := step(); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare port %s: %w", name, err), p.Restore())
		}
	}
	p.pauseOff(d)
	for _, o := range offloads {
		p.offloadOff(d, o)
	}
	return p, nil
}

// Restore puts everything back that Prepare changed, last first. A second call does nothing.
func (p *Prepared) Restore() error {
	var errs []error
	for _, undo := range slices.Backward(p.undo) {
		if err := undo(); err != nil {
			errs = append(errs, fmt.Errorf("restore port %s: %w", p.name, err))
		}
	}
	p.undo = nil
	return errors.Join(errs...)
}

// changed notes a change and how to take it back.
func (p *Prepared) changed(what string, undo func() error) {
	p.Changed = append(p.Changed, what)
	p.undo = append(p.undo, undo)
}

// flag sets a flag of the link that isn't set.
func (p *Prepared) flag(link netlink.Link, flag uint32, word string, on, off func(netlink.Link) error) error {
	if link.Attrs().RawFlags&flag != 0 {
		return nil
	}
	if err := on(link); err != nil {
		return fmt.Errorf("%s: %w", word, err)
	}
	p.changed(word, func() error {
		if err := off(link); err != nil {
			return fmt.Errorf("no longer %s: %w", word, err)
		}
		return nil
	})
	return nil
}

// pauseOff turns flow control off where the driver has it.
func (p *Prepared) pauseOff(d device) {
	before, err := d.pause()
	if err != nil || before.receive == 0 && before.transmit == 0 && before.negotiate == 0 {
		return // it has none, or it is off
	}
	err = d.setPause(pause{})
	if err != nil && before.negotiate != 0 { // some drivers negotiate pause frames with all else or not at all
		err = d.setPause(pause{negotiate: before.negotiate})
	}
	if err != nil {
		p.Refused = append(p.Refused, fmt.Sprintf("pause frames stay on: %v", err))
		return
	}
	name := d.name
	p.changed("pause frames off", func() error {
		return again(name, func(d device) error {
			if err := d.setPause(before); err != nil {
				return fmt.Errorf("pause frames as before: %w", err)
			}
			return nil
		})
	})
}

// offload is a setting of struct ethtool_value: all of it, or one bit of the flags.
type offload struct {
	word     string
	get, set uint32
	mask     uint32
}

// Bits of ETHTOOL_GFLAGS.
const (
	flagLRO    = 1 << 15
	flagRxVLAN = 1 << 8
)

var offloads = []offload{
	{"GRO", unix.ETHTOOL_GGRO, unix.ETHTOOL_SGRO, 1},
	{"LRO", unix.ETHTOOL_GFLAGS, unix.ETHTOOL_SFLAGS, flagLRO},
	{"VLAN tag removal", unix.ETHTOOL_GFLAGS, unix.ETHTOOL_SFLAGS, flagRxVLAN},
}

// offloadOff turns one off where it is on and the driver lets it.
func (p *Prepared) offloadOff(d device, o offload) {
	before, err := d.value(o.get, 0)
	if err != nil || before&o.mask == 0 {
		return // it has no such setting, or it is off
	}
	_, err = d.value(o.set, before&^o.mask)
	if err == nil {
		var after uint32
		// A driver may say yes and keep what it can't do without.
		if after, err = d.value(o.get, 0); err == nil && after&o.mask != 0 {
			err = errors.New("the driver keeps it on")
		}
	}
	if err != nil {
		p.Refused = append(p.Refused, fmt.Sprintf("%s stays on: %v", o.word, err))
		return
	}
	name := d.name
	p.changed(o.word+" off", func() error {
		return again(name, func(d device) error {
			now, err := d.value(o.get, 0)
			if err == nil {
				_, err = d.value(o.set, now|o.mask)
			}
			if err != nil {
				return fmt.Errorf("%s on: %w", o.word, err)
			}
			return nil
		})
	})
}

// again opens the device once more, for what is undone long after.
func again(name string, f func(device) error) error {
	d, err := open(name)
	if err != nil {
		return err
	}
	defer d.close()
	return f(d)
}

// linkNamed returns the link of that name.
func linkNamed(name string) (netlink.Link, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("port %s: %w", name, err)
	}
	return l, nil
}
