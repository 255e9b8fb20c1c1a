// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"fmt"
	"structs"

	"github.com/cilium/ebpf"

	"minne/internal/subsystem/fastpath/filter"
)

// Verdicts of the program, as the kernel numbers them (enum xdp_action).
const (
	ActionDrop     = 1
	ActionPass     = 2
	ActionRedirect = 4
)

// Verdict is what the program would do with a packet.
type Verdict struct {
	Action    uint32         // ActionDrop, ActionPass (the kernel's) or ActionRedirect
	Reason    Reason         // Forwarded with ActionRedirect
	Packet    []byte         // the frame as the program leaves it
	Ingress   int            // logical interface it came in by; 0 when there is none
	Egress    int            // logical interface it would leave by; 0 unless redirected
	Port      int            // and the port below
	NextHop   uint32         // index from the routing table; 0 when it was not asked or has no route
	Evaluated filter.Verdict // of the firewall's rules; zero when they were not asked
	trace     routerTrace
}

// contextXDP is struct xdp_md of include/uapi/linux/bpf.h.
type contextXDP struct {
	_       structs.HostLayout
	Data    uint32
	DataEnd uint32
	Meta    uint32
	Ingress uint32
	Queue   uint32
	Egress  uint32
}

// headroom is how much a frame can grow in a test run: two tags and the header of a PPPoE session.
const headroom = 16

// Run asks the program, with the tables as they are, what it would do with a frame (without FCS,
// at least 14 bytes) that arrives at the link with that ifindex. It counts nothing, samples nothing,
// sends nothing and takes no stale neighbour's turn.
func (f *FastPath) Run(frame []byte, ifindex int) (Verdict, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return Verdict{}, err
	}
	return f.prog.run(frame, ifindex)
}

func (p *program) run(frame []byte, ifindex int) (Verdict, error) {
	if err := p.loadTracer(); err != nil {
		return Verdict{}, err
	}
	out := make([]byte, len(frame)+headroom)
	options := ebpf.RunOptions{
		Data:    frame,
		DataOut: out,
		Context: contextXDP{DataEnd: uint32(len(frame)), Ingress: uint32(ifindex)},
	}
	clear(p.trace)
	action, err := p.tracer.Run(&options)
	if err != nil {
		return Verdict{}, fmt.Errorf("running the program on a frame of %d bytes from link %d: %w", len(frame), ifindex, err)
	}
	var t routerTrace
	zero := uint32(0)
	if err := p.objects.Trace.Lookup(&zero, &t); err != nil {
		return Verdict{}, errors.Join(errors.New("read the program's trace"), err)
	}
	return Verdict{Action: action, Reason: Reason(t.Reason), Packet: options.DataOut, Ingress: int(t.Interface),
		Egress: int(t.Egress), Port: int(t.Port), NextHop: t.Nexthop, Evaluated: filter.VerdictOf(t.Verdict), trace: t}, nil
}
