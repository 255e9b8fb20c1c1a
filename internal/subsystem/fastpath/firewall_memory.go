// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"os"

	"github.com/cilium/ebpf"

	"minne/internal/subsystem/fastpath/addrset"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/subsystem/fastpath/flow"
	"minne/internal/subsystem/fastpath/mapped"
)

// firewallShape is the part of a program's shape that the firewall asks for. Its zero value is that
// of a router without one, whose tables take next to nothing.
type firewallShape struct {
	on        bool
	full      bool // the rules need the large classifier
	members   int  // of the sets that are asked for by address, in powers of two
	flows     int  // that the flow table holds; 0 where no state is kept
	conntrack bool // the program asks conntrack; else the kernel carries all connections
}

func (s firewallShape) rules() classify.Layout {
	switch {
	case s.full:
		return classify.LayoutOf(classify.Full)
	case s.on:
		return classify.LayoutOf(classify.Small)
	}
	return classify.LayoutOf(classify.Empty)
}

func (s firewallShape) sets() addrset.Layout { return addrset.LayoutFor(s.members) }

func (s firewallShape) size() flow.Size { return flow.Size{Flows: max(s.flows, flow.MinFlows)} }

// entries are the sizes of arrays by name.
func (s firewallShape) entries() map[string]uint32 {
	e := s.size().Entries()
	if s.on {
		e[routerMapPolicyCounts] = 2 * filter.MaxCounters
		e[routerMapPolicyLogged] = filter.MaxCounters
	}
	e[routerMapFlowAsks] = uint32(os.Getpagesize())
	if s.conntrack {
		e[routerMapFlowAsks] = followedRing
	}
	return e
}

// firewallMemory is the firewall's tables in memory that is shared with the program.
type firewallMemory struct {
	ways  words  // [buffer][from][to]
	soles []byte // verdicts on all packets of a way: [buffer][IPv6][number]
	rules *classify.Shared
	sets  *addrset.Set
	flows *flow.Table
	slots [filter.MaxSets]string // which set has which number in sets

	inForce []int // numbers of the sets that packets are evaluated by
}

func (p *program) shareFirewall() error {
	m, f := &p.objects.routerMaps, &p.firewall
	var memory flow.Memory
	var ways, image, active, sets []byte
	var failed []error
	for _, t := range []struct {
		from *ebpf.Map
		to   *[]byte
	}{
		{m.PolicyPairs, &ways}, {m.ClassifyImage, &image}, {m.ClassifyActive, &active}, {m.SetImage, &sets},
		{m.FlowControl, &memory.Control}, {m.FlowIndex, &memory.Index}, {m.FlowSides, &memory.Sides},
		{m.FlowFree, &memory.Free}, {m.FlowSources, &memory.Sources},
	} {
		var err error
		*t.to, err = p.region(t.from)
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	f.ways, f.soles = mapped.View[uint64](ways[:2*8*waysPerBuffer]), ways[2*8*waysPerBuffer:]
	var err1, err2, err3 error
	f.rules, err1 = p.shape.firewall.rules().Open(image, active, mapped.WaitForReaders)
	f.sets, err2 = p.shape.firewall.sets().New(sets, mapped.WaitForReaders)
	f.flows, err3 = flow.New(memory, p.shape.firewall.size(), flow.DefaultTimeouts)
	return errors.Join(err1, err2, err3)
}
