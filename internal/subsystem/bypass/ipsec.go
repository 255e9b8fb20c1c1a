// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// IPsec (net/xfrm): the kernel looks for a policy before it forwards a packet (ip_forward:
// xfrm4_policy_check for direction fwd, xfrm4_route_forward for out; IPv6 likewise). One may encrypt
// the packet, block it, or demand that it came encrypted.
//
// Not every policy is about packets of ports. Those with an interface id are for packets of xfrm
// interfaces, those with a mark for marked packets, as VTI links make them; what a port receives
// has neither. Policies of direction in are for packets to the router.

// Messages of NETLINK_XFRM and attributes of policies (linux/xfrm.h).
const (
	xfrmGetPolicy  = 0x15
	xfrmGetDefault = 0x28

	xfrmMark        = 21
	xfrmInterfaceID = 31

	xfrmOut = 1
	xfrmFwd = 2

	// Places in struct xfrm_userpolicy_info.
	xfrmFamily       = 40
	xfrmPrefixLen    = 42 // of the destination; of the source behind it
	xfrmDirection    = 160
	xfrmAction       = 161
	xfrmPolicyLength = 168

	xfrmRequestLength = 64 // struct xfrm_userpolicy_id
	xfrmBlock         = 1  // as an action of a policy and as a default
)

// readIPsec finds the policies that are about forwarded packets.
func readIPsec() (State, error) {
	var s State
	err := dump(unix.NETLINK_XFRM, xfrmGetPolicy, make([]byte, xfrmRequestLength), func(policy []byte) { notePolicy(&s, policy) })
	if missing(err) {
		return State{}, nil // a kernel without IPsec
	}
	if err != nil {
		return State{}, err
	}
	return s, readDefaults(&s)
}

// notePolicy notes a policy, struct xfrm_userpolicy_info and attributes.
func notePolicy(s *State, policy []byte) {
	if len(policy) < xfrmAction+1 {
		return
	}
	direction := policy[xfrmDirection]
	if direction != xfrmOut && direction != xfrmFwd {
		return
	}
	for kind, value := range nlmsg.Attributes(policy[min(xfrmPolicyLength, len(policy)):]) {
		switch {
		case kind == xfrmInterfaceID && number(value) != 0:
			return
		case kind == xfrmMark && len(value) >= 8 && number(value)&number(value[4:]) != 0:
			return
		}
	}
	which, bytes := IPv4, 4
	if native.Uint16(policy[xfrmFamily:]) == unix.AF_INET6 {
		which, bytes = IPv6, 16
	}
	prefix := func(at int, bits byte) netip.Prefix {
		a, _ := netip.AddrFromSlice(policy[at : at+bytes])
		return netip.PrefixFrom(a, int(bits))
	}
	words := fmt.Sprintf("IPsec policy for %v → %v", prefix(16, policy[xfrmPrefixLen+1]), prefix(0, policy[xfrmPrefixLen]))
	if direction == xfrmFwd {
		words += " (fwd)"
	}
	if policy[xfrmAction] == xfrmBlock {
		words += ", which blocks"
	}
	s.family(which, IPsec, words)
}

// readDefaults asks what happens to packets without a policy (Linux 5.15): they may be blocked.
func readDefaults(s *State) error {
	socket, err := nlmsg.Dial(unix.NETLINK_XFRM)
	if err != nil {
		return err
	}
	defer socket.Close()
	_, err = socket.Ask(context.Background(), xfrmGetDefault, 0, make([]byte, 4), func(m nlmsg.Message) error { // struct xfrm_userpolicy_default: in, fwd, out
		if answer := pad(m.Body, 3); answer[1] == xfrmBlock || answer[2] == xfrmBlock {
			s.both(IPsec, "IPsec blocks what has no policy (ip xfrm policy getdefault)")
		}
		return nil
	})
	if missing(err) {
		return nil
	}
	return err
}
