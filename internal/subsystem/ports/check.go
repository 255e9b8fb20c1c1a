// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Check looks at the ports of a measurement, each named once, and refuses those that can't be used,
// all reasons at once. force lets ports pass that are in use for something else: default route, SSH
// session, bridge or bond.
func Check(force bool, names ...string) ([]Facts, error) {
	var all []Facts
	var refused []error
	seen := map[int]string{}
	for _, name := range names {
		f, err := Look(name)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		if first, again := seen[f.Index]; again {
			refused = append(refused, fmt.Errorf("%s and %s are one port: a measurement needs two, one on each side of the device", first, name))
			continue
		}
		seen[f.Index] = name
		refused = append(refused, f.refusals(force)...)
		all = append(all, f)
	}
	return all, errors.Join(refused...)
}

// refusals are the reasons not to measure through a port.
func (f Facts) refusals(force bool) (errs []error) {
	if f.loopback() {
		return []error{fmt.Errorf("port %s is the loopback: nothing can be cabled to it", f.Name)}
	}
	if p := f.Program; p != nil {
		errs = append(errs, fmt.Errorf("port %s carries %s, which is not the lab's: detach it first (a router's fast path with minne fast-path off, another program with ip link set dev %s xdp off)", f.Name, p, f.Name))
	}
	if f.XDP.Known && !f.XDP.Native && f.Kind != "" {
		errs = append(errs, fmt.Errorf("port %s is a %s, not a network card: its driver runs no XDP program; expected the port that the cable is in", f.Name, f.Kind))
	}
	if force {
		return errs
	}
	if len(f.Uses) > 0 {
		var uses []string
		for _, u := range f.Uses {
			uses = append(uses, u.String())
		}
		errs = append(errs, fmt.Errorf("port %s carries %s, which a measurement would cut off: choose another port, or --force when you sit at the machine", f.Name, strings.Join(uses, " and ")))
	}
	if f.Master != "" {
		errs = append(errs, fmt.Errorf("port %s belongs to %s: take it out with ip link set dev %s nomaster, or --force", f.Name, f.Master, f.Name))
	}
	return errs
}

func (f Facts) loopback() bool { return f.Name == "lo" }

// Remarks say what a reader of the report should know of the port.
func (f Facts) Remarks() (remarks []string) {
	add := func(format string, args ...any) {
		remarks = append(remarks, fmt.Sprintf("port %s: ", f.Name)+fmt.Sprintf(format, args...))
	}
	switch {
	case f.XDP.Known && !f.XDP.Native:
		add("driver %s runs no XDP programs itself: the generic path is used, which is several times slower", f.driverName())
	case f.XDP.Known && !f.XDP.Transmit:
		add("driver %s does not transmit for XDP: frames are sent through a packet socket, which is slower", f.driverName())
	}
	if f.Speed == 0 {
		add("its speed is unknown: no theoretical line can be drawn")
	}
	if q := f.Queues; q.Receive > 0 && (q.Receive < q.MostReceive || q.Transmit < q.MostTransmit) {
		add("%d of %d receive and %d of %d transmit queues are in use", q.Receive, q.MostReceive, q.Transmit, q.MostTransmit)
	}
	if len(f.Addresses) > 0 {
		add("it has the addresses %s: the kernel answers to them and may send frames of its own", strings.Join(f.Addresses, ", "))
	}
	return remarks
}

func (f Facts) driverName() string {
	if f.Driver == "" {
		return "(unknown)"
	}
	return f.Driver
}

// AwaitCarrier waits until the ports, which are up, have a link, at most for the given time: an
// autonegotiation takes seconds.
func AwaitCarrier(ctx context.Context, most time.Duration, names ...string) error {
	for end := time.Now().Add(most); ; {
		missing, err := withoutCarrier(names)
		if err != nil || len(missing) == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("no link on %s after %s: is the cable in, and is the device's port up?", strings.Join(missing, " and "), most)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func withoutCarrier(names []string) (missing []string, err error) {
	for _, name := range names {
		l, err := linkNamed(name)
		if err != nil {
			return nil, err
		}
		if l.Attrs().RawFlags&unix.IFF_LOWER_UP == 0 {
			missing = append(missing, name)
		}
	}
	return missing, nil
}
