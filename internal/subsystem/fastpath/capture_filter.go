// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"minne/internal/subsystem/fastpath/filter"
)

// CaptureFilter says which packets a capture wants; all conditions must hold.
type CaptureFilter struct {
	Interface string         `json:"interface,omitempty"` // that it came in by, a port or a VLAN; "" for any
	Prefixes  []netip.Prefix `json:"prefixes,omitempty"`  // source or destination lies in each of them; two at most
	Port      uint16         `json:"port,omitempty"`      // of TCP or UDP, source or destination; 0 for any
	Verdict   string         `json:"verdict,omitempty"`   // forwarded, dropped or punted; "" for any
	Reason    string         `json:"reason,omitempty"`    // name of the reason of a drop or punt; "" for any
	Rule      string         `json:"rule,omitempty"`      // number or name of the firewall's rule that decided, or CaptureDefault; "" for any or none
	Every     int            `json:"every,omitempty"`     // of the packets that match, each Every-th; below 2 all
	Snaplen   int            `json:"snaplen"`             // bytes of each packet, MaxSnaplen at most
	Sent      bool           `json:"sent,omitempty"`      // forwarded packets a second time, as they left
}

// CaptureDefault stands for what no rule matched.
const CaptureDefault = "default"

// MaxSnaplen is the largest number of bytes of a packet that are copied: XDP has no larger packets.
const MaxSnaplen = 4096

// verdictActions are the XDP actions of each verdict, as a bit mask.
var verdictActions = map[string]uint32{
	"": ^uint32(0), VerdictForwarded: 1 << ActionRedirect, VerdictDropped: 1 << ActionDrop, VerdictPunted: 1 << ActionPass,
}

// Check says what of the filter makes no sense.
func (c CaptureFilter) Check() error {
	_, err := c.constants(0, [2]uint16{})
	return err
}

// constants are the values of the program's constants; counters are the first and last of the rules that
// are wanted.
func (c CaptureFilter) constants(ifindex int, counters [2]uint16) (map[string]any, error) {
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
		"want_first": uint32(counters[0]), "want_last": uint32(counters[1]),
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

// countersOf are the first and the last counter of the rule that an operator means by its number, its
// name, or CaptureDefault. What the fast path never decides by is refused: nothing would be captured.
func (w *firewall) countersOf(rule string) (counters [2]uint16, err error) {
	p := w.policy
	switch {
	case p == nil:
		return counters, errors.New("there is no firewall, so no rule decides about packets")
	case w.kernel != "":
		return counters, fmt.Errorf("the kernel filters all packets, so no rule applies in the fast path: %s", w.kernel)
	case rule == CaptureDefault:
		counters = [2]uint16{uint16(p.Names.Defaults), uint16(p.Counters)}
	default:
		number, err := ruleNumber(p.Names.Rules, rule)
		if err != nil {
			return counters, err
		}
		counters = [2]uint16{uint16(number), uint16(number)}
	}
	for _, r := range p.Rules {
		if c := filter.VerdictOf(r.Verdict).Counter; counters[0] <= c && c <= counters[1] {
			return counters, nil
		}
	}
	return counters, fmt.Errorf("the fast path does not evaluate rule %q: the kernel does, for the first packet of each connection, "+
		"whose other packets pass without a rule (minne show firewall counts)", rule)
}

// ruleNumber finds a rule by number or name.
func ruleNumber(names []string, rule string) (number int, err error) {
	if n, err := strconv.Atoi(rule); err == nil && 1 <= n && n < len(names) {
		return n, nil
	}
	var found []string
	for n, name := range names {
		if n > 0 && name == rule {
			found, number = append(found, strconv.Itoa(n)), n
		}
	}
	switch len(found) {
	case 0:
		return 0, fmt.Errorf("no rule %q: expected a number or a name as in minne show firewall, or %s", rule, CaptureDefault)
	case 1:
		return number, nil
	}
	return 0, fmt.Errorf("several rules are named %[2]q (%[1]s): use the number", strings.Join(found, ", "), rule)
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
func (c CaptureFilter) set(spec *ebpf.CollectionSpec, ifindex int, counters [2]uint16) error {
	values, err := c.constants(ifindex, counters)
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
