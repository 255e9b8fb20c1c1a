// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"net"
	"slices"
	"time"

	"minne/internal/base/affinity"
	"minne/internal/subsystem/fastpath/prove"
)

// A port is trusted with packets when a frame has left by it, as a program's packets do, from each processor on which
// packets may arrive. What drivers say of themselves is not enough: before Linux 6.3 they say nothing, and some send only on
// processors with a queue of that number (i40e, mlx5).

// askAgain is how long a port that did not send is left alone.
const askAgain = 5 * time.Second

// proved is what a port has shown.
type proved struct {
	on    []int     // processors that it sends on
	wrong string    // why it is not trusted, "" where it is
	asked time.Time // last
}

// doubted says whether it is time to ask a port again.
func (p *proved) doubted() bool { return p.wrong != "" && time.Since(p.asked) >= askAgain }

// asking is what is needed while ports are asked one after the other; the zero value between that.
type asking struct {
	prover    *prove.Prover
	receivers []int // processors on which packets may arrive
}

// proves says whether a port sends what is redirected to it, and if not, why not. It trusts what it can't ask: a port
// without carrier, which loses nothing, a bond, whose ports have drivers of their own, and a kernel that does not tell.
func (f *FastPath) proves(p *port) (ok bool, why string) {
	link := f.tables.links[p.ifindex]
	if p.generic || link == nil || !link.Up || !link.Running || len(p.devices) != 1 || p.devices[0] != p.name || len(link.MAC) != 6 {
		return true, ""
	}
	if p.proved.wrong != "" && !p.proved.doubted() {
		return false, p.proved.wrong
	}
	if f.asking.receivers == nil {
		f.asking.receivers = f.receivers()
	}
	cpus := f.asking.receivers
	if !slices.ContainsFunc(cpus, func(c int) bool { return !slices.Contains(p.proved.on, c) }) {
		return true, ""
	}
	err := f.proveFrom(p.ifindex, [6]byte(link.MAC), cpus)
	var failure *prove.Failure
	switch {
	case err == nil:
		p.proved = proved{on: cpus}
	case errors.As(err, &failure):
		why := "receives only: " + failure.Error()
		if !failure.All {
			why += ": give it a queue for each CPU, or keep packets from the others (system.cpus)"
		}
		p.proved = proved{wrong: why, asked: time.Now()}
	default:
		f.log.Debug("cannot prove that a port sends", "interface", p.name, "error", err)
		p.proved = proved{on: cpus}
	}
	return p.proved.wrong == "", p.proved.wrong
}

// askPort asks a port on some processors. Tests give other answers.
var askPort = (*prove.Prover).Port

// proveFrom asks one port. The programs are loaded for the first that is asked, and unloaded when all have been (reconcile).
func (f *FastPath) proveFrom(ifindex int, source [6]byte, cpus []int) (err error) {
	if f.asking.prover == nil {
		if f.asking.prover, err = prove.Open(); err != nil {
			return err
		}
	}
	return askPort(f.asking.prover, ifindex, source, cpus)
}

// askedAll ends the asking.
func (f *FastPath) askedAll() {
	if f.asking.prover != nil {
		if err := f.asking.prover.Close(); err != nil {
			f.log.Error("cannot unload the programs that ask ports", "error", err)
		}
	}
	f.asking = asking{}
}

// receivers are the processors on which packets may arrive: those that may take the interrupts of the ports' queues, or all
// where a port has none to ask about.
func (f *FastPath) receivers() (list []int) {
	online, err := affinity.Here.Online()
	if err != nil {
		return nil
	}
	if len(f.desired.Spread) > 0 {
		list = f.desired.spreadOver(online)
	}
	for _, p := range f.ports {
		for _, name := range p.devices {
			i, err := net.InterfaceByName(name)
			if err != nil {
				continue
			}
			interrupts, err := affinity.Here.Interrupts(name, i.Index)
			if err != nil || len(interrupts) == 0 {
				return online
			}
			for _, one := range interrupts {
				list = append(list, one.CPUs...)
			}
		}
	}
	return slices.DeleteFunc(online, func(c int) bool { return !slices.Contains(list, c) })
}
