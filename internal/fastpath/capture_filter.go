// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/cilium/ebpf"
)

// CaptureFilter says which packets a capture wants; all conditions must hold.
type CaptureFilter struct {
	Interface string         `json:"interface,omitempty"` // that it came in by, a port or a VLAN; "" for any
	Prefixes  []netip.Prefix `json:"prefixes,omitempty"`  // source or destination lies in each of them; two at most
	Port      uint16         `json:"port,omitempty"`      // of TCP or UDP, source or destination; 0 for any
	Verdict   string         `json:"verdict,omitempty"`   // forwarded, dropped or punted; "" for any
	Reason    string         `json:"reason,omitempty"`    // name of the reason of a drop or punt; "" for any
	Every     int            `json:"every,omitempty"`     // of the packets that match, each Every-th; below 2 all
	Snaplen   int            `json:"snaplen"`             // bytes of each packet, MaxSnaplen at most
	Sent      bool           `json:"sent,omitempty"`      // forwarded packets a second time, as they left
}

// MaxSnaplen is the largest number of bytes of a packet that are copied: XDP has no larger packets.
const MaxSnaplen = 4096

// verdictActions are the XDP actions of each verdict, as a bit mask.
var verdictActions = map[string]uint32{
	"": ^uint32(0), VerdictForwarded: 1 << ActionRedirect, VerdictDropped: 1 << ActionDrop, VerdictPunted: 1 << ActionPass,
}

// Check says what of the filter makes no sense.
func (c CaptureFilter) Check() error {
	_, err := c.constants(0)
	return err
}

// constants are the values of the program's constants.
func (c CaptureFilter) constants(ifindex int) (map[string]any, error) {
	verdicts, ok := verdictActions[c.Verdict]
	if !ok {
		return nil, fmt.Errorf("verdict %q: expected forwarded, dropped or punted", c.Verdict)
	}
	var reason Reason
	if c.Reason != "" {
		var err error
		if reason, err = reasonOf(c.Reason); err != nil {
			return nil, err
		}
	}
	if c.Snaplen < 1 || c.Snaplen > MaxSnaplen {
		return nil, fmt.Errorf("snapshot length %d: expected 1 to %d bytes", c.Snaplen, MaxSnaplen)
	}
	var nets [2]routerCapturedNet
	if len(c.Prefixes) > len(nets) {
		return nil, errors.New("more than two addresses or prefixes: a packet has only two addresses")
	}
	for i, p := range c.Prefixes {
		nets[i] = capturedNet(p)
	}
	sent := uint32(0)
	if c.Sent {
		sent = 1
	}
	return map[string]any{
		"capture_build": uint32(1), "want_interface": uint32(ifindex), "want_verdicts": verdicts, "want_reason": uint32(reason),
		"want_l4": uint32(c.Port), "want_nets": uint32(len(c.Prefixes)), "nets": nets,
		"sample_every": uint32(max(c.Every, 1)), "snaplen": uint32(c.Snaplen), "also_sent": sent,
	}, nil
}

// reasonOf is the reason of that name, as show drops prints it.
func reasonOf(name string) (Reason, error) {
	var known []string
	for _, r := range Reasons() {
		if r.String() == name {
			return r, nil
		}
		known = append(known, r.String())
	}
	return 0, fmt.Errorf("reason %q: expected one of %s", name, strings.Join(known, ", "))
}

// capturedNet writes a prefix as the program compares it: words with the bytes of the packet.
func capturedNet(p netip.Prefix) routerCapturedNet {
	p = p.Masked()
	var address, mask [16]byte
	copy(address[:], p.Addr().AsSlice())
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	n := routerCapturedNet{Family: 4}
	if p.Addr().Is6() {
		n.Family = 6
	}
	for i := range n.Address {
		n.Address[i] = binary.NativeEndian.Uint32(address[4*i:])
		n.Mask[i] = binary.NativeEndian.Uint32(mask[4*i:])
	}
	return n
}

// set puts the filter into the program before it is loaded.
func (c CaptureFilter) set(spec *ebpf.CollectionSpec, ifindex int) error {
	values, err := c.constants(ifindex)
	if err != nil {
		return err
	}
	for name, value := range values {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("setting %s in the fast path's program: %w", name, err)
		}
	}
	return nil
}
