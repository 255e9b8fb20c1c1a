// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"minne/internal/model/config"
)

// Ports: the links that run the program. Each has a bpf_link pinned as
// "port-<ifindex>", which keeps the program attached when the daemon is gone, and
// lets a new daemon put another program in its place without a gap.

const portPin = "port-"

// port is one link with the program, or the reason why it has none.
type port struct {
	ifindex  int
	name     string
	link     link.Link // nil when the program is not attached
	pin      string    // where the link is pinned
	current  bool      // the link runs this daemon's program, not that of an earlier one
	generic  bool
	spread   bool   // its packets are handed to CPUs by flow
	why      string // for show fast-path
	features features
	unsummed bool     // senders may leave checksums to hardware
	proved   proved   // by frames that left
	devices  []string // whose frames the program sees: the ports of a bond, else itself
}

// errForeign says that somebody else's program is on a port.
type errForeign struct{ program string }

func (e errForeign) Error() string {
	return fmt.Sprintf("XDP program %s is attached, and not ours: detach it, or set fast-path: off for the interface", e.program)
}

// errIncapable says that a port's driver can't run the program, which is no fault where the mode is auto.
type errIncapable struct{ driver, lacks string }

func (e errIncapable) Error() string {
	return fmt.Sprintf("driver %s has no native XDP%s", e.driver, e.lacks)
}

// adoptPorts finds the links that an earlier daemon pinned. The error tells of pins that lead to no link; the others are
// returned all the same.
func adoptPorts(dir string) (map[int]*port, error) {
	ports := map[int]*port{}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return ports, nil
	}
	if err != nil {
		return ports, fmt.Errorf("reading the pinned ports: %w", err)
	}
	var failed []error
	for _, e := range entries {
		index, err := strconv.Atoi(strings.TrimPrefix(e.Name(), portPin))
		if !strings.HasPrefix(e.Name(), portPin) || err != nil {
			continue
		}
		path := filepath.Join(dir, e.Name())
		l, err := link.LoadPinnedLink(path, nil)
		if err != nil {
			failed = append(failed, fmt.Errorf("adopting %s: %w", path, err))
			continue
		}
		on, err := attachedTo(l)
		if err != nil || on != index { // the device is gone, or its index is another's now
			_ = l.Unpin()
			l.Close()
			continue
		}
		ports[index] = &port{ifindex: index, link: l, pin: path}
	}
	return ports, errors.Join(failed...)
}

// attachedTo is the ifindex that a link is attached to; 0 when its device is gone.
func attachedTo(l link.Link) (int, error) {
	i, err := l.Info()
	if err != nil {
		return 0, err
	}
	if x := i.XDP(); x != nil {
		return int(x.Ifindex), nil
	}
	return 0, fmt.Errorf("not an XDP link but %v", i.Type)
}

// attach puts the program on the port in the given mode, and pins the link.
func (p *port) attach(prog *ebpf.Program, mode config.FastPathMode, dir string) error {
	flags := link.XDPDriverMode
	p.generic = mode == "generic"
	if p.generic {
		flags = link.XDPGenericMode
	} else if err := p.ready(); err != nil {
		return err
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: p.ifindex, Flags: flags})
	if err != nil {
		return p.explain(err)
	}
	p.link = l
	if _, err := p.mendPin(dir); err != nil {
		p.link = nil
		return errors.Join(err, takeOff(l))
	}
	p.pin, p.current = pinOf(dir, p.ifindex), true
	p.unsummed = p.sums()
	return nil
}

// ready checks that the driver can do what a port needs before anything is touched.
func (p *port) ready() error {
	f, err := featuresOf(p.ifindex)
	if err != nil && !errors.Is(err, errNoFeatures) {
		return err
	}
	if need := featureBasic | featureRedirect; err == nil && f&need != need {
		return errIncapable{driverOf(p.name), fmt.Sprintf(" with redirect (it has: %s)", f)}
	}
	return p.bare()
}

// bare makes the drivers hand frames over as they came.
func (p *port) bare() (err error) {
	for _, name := range p.devices {
		err = errors.Join(err, bare(name))
	}
	return err
}

// sums says whether senders may leave checksums to hardware.
func (p *port) sums() bool {
	return p.generic || slices.ContainsFunc(p.devices, func(name string) bool { return leavesSums(driverOf(name), busOf(name)) })
}

// explain says in an operator's words why the program could not be attached.
func (p *port) explain(err error) error {
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return errForeign{foreignProgram(p.name)}
	case errors.Is(err, unix.EOPNOTSUPP):
		return errIncapable{driverOf(p.name), ": " + err.Error()}
	case errors.Is(err, unix.ERANGE), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("driver %s refuses native XDP (too large an MTU, or too few queues?): %w", driverOf(p.name), err)
	}
	return err
}

// detach takes the program off the port at once, even if other processes hold the link too.
func (p *port) detach() error {
	if p.link == nil {
		return nil
	}
	err := takeOff(p.link)
	if p.pin != "" {
		err = errors.Join(err, removeIfThere(p.pin))
	}
	p.link, p.current = nil, false
	return err
}

func takeOff(l link.Link) error {
	var failed []error
	if d, ok := l.(interface{ Detach() error }); ok {
		if err := d.Detach(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENOLINK) {
			failed = append(failed, err)
		}
	}
	failed = append(failed, l.Unpin(), l.Close())
	return errors.Join(failed...)
}

// take exchanges the program under the port's link for prog, in one step.
func (p *port) take(prog *ebpf.Program) error {
	if err := p.link.Update(prog); err != nil {
		return fmt.Errorf("exchanging the program on %s: %w", p.name, err)
	}
	p.current = true
	return nil
}

// scatters says whether the port sends frames in several buffers. transmits has asked the driver.
func (p *port) scatters() bool { return p.generic || p.features&featureScatter != 0 }

// transmits says whether packets may leave by the port, and if not, why not. A generic program
// sends through the ordinary transmit path, which every driver has.
func (p *port) transmits() (bool, string) {
	if p.link == nil {
		return false, ""
	}
	if p.generic {
		return true, ""
	}
	f, err := featuresOf(p.ifindex)
	if err != nil {
		return errors.Is(err, errNoFeatures), ""
	}
	p.features = f
	if f&featureTransmit != 0 {
		return true, ""
	}
	driver := driverOf(p.name)
	if driver == "veth" {
		return false, "receives only: the far end of the veth has neither XDP nor GRO"
	}
	return false, fmt.Sprintf("receives only: driver %s can't transmit for XDP (too few queues?)", driver)
}
