// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// BPF programs of others on the way of forwarded packets that no list of netlink shows: at the
// hooks of the packet filter (Linux 6.4), and a dissector of flows, whose answer the kernel hashes.
// Those of tcx are asked for by device (links.go).

// programs looks for them. What this kernel does not have is asked for once.
type programs struct{ noDissector, noLinks bool }

func newPrograms() *programs { return &programs{} }

func (p *programs) read() (State, error) {
	var s State
	return s, errors.Join(p.dissector(&s), p.filters(&s))
}

// dissector asks for a program that takes packets apart in place of the kernel's own.
func (p *programs) dissector(s *State) error {
	if p.noDissector {
		return nil
	}
	ns, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return err
	}
	defer ns.Close()
	there, err := link.QueryPrograms(link.QueryOptions{Target: int(ns.Fd()), Attach: ebpf.AttachFlowDissector})
	if err != nil {
		p.noDissector = unsupported(err)
		if p.noDissector {
			return nil
		}
		return fmt.Errorf("flow dissector: %w", err)
	}
	if len(there.Programs) > 0 {
		for which := range s.Hash {
			s.Hash[which].Kernel = fmt.Sprintf("BPF program %d dissects flows", there.Programs[0].ID)
		}
	}
	return nil
}

// filters looks through all BPF links of the machine for those at the hooks of the packet filter.
// None says of which network namespace it is: one of a container counts too.
func (p *programs) filters(s *State) error {
	if p.noLinks {
		return nil
	}
	all := new(link.Iterator)
	defer all.Close()
	for all.Next() {
		info, err := all.Link.Info()
		if err != nil || info.Netfilter() == nil {
			continue // it is just going, or is of another kind
		}
		n := info.Netfilter()
		if n.Hook != hookPrerouting && n.Hook != hookForward && n.Hook != hookPostrouting {
			continue
		}
		words := fmt.Sprintf("BPF program %d at hook %s", info.Program, hookNames[uint32(n.Hook)])
		switch uint32(n.ProtocolFamily) {
		case unix.NFPROTO_IPV4:
			s.family(IPv4, Filter, words)
		case unix.NFPROTO_IPV6:
			s.family(IPv6, Filter, words)
		}
	}
	if err := all.Err(); err != nil {
		p.noLinks = unsupported(err)
		if !p.noLinks {
			return fmt.Errorf("BPF links: %w", err)
		}
	}
	return nil
}

// unsupported says whether an error means that this kernel does not have what was asked for.
func unsupported(err error) bool {
	return errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}
