// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"slices"
	"strings"

	"minne/internal/model/packet"
)

// Explain: the same program, over the same tables, asked about one packet. The
// tracing twin (program.go) writes down what each stage said; it counts nothing,
// sends nothing and takes no turn of a stale neighbour, so a live router does not
// notice that it was asked.

// Step is what one stage of the journey said.
type Step struct {
	Stage  string `json:"stage"`
	Passed bool   `json:"passed"`
	Text   string `json:"text"`
}

// Explanation is what the fast path does with a packet, and why.
type Explanation struct {
	Packet    string `json:"packet"`              // in one line
	Interface string `json:"interface,omitempty"` // logical interface it came in by
	Steps     []Step `json:"steps"`
	Verdict   string `json:"verdict"`          // forwarded, dropped, punted (left to the kernel)
	Reason    string `json:"reason,omitempty"` // of a drop or punt
	Text      string `json:"text,omitempty"`
	Hint      string `json:"hint,omitempty"`
	Egress    string `json:"egress,omitempty"` // logical interface it leaves by
	Port      string `json:"port,omitempty"`   // the port below
	SrcMAC    string `json:"source_mac,omitempty"`
	DstMAC    string `json:"destination_mac,omitempty"`
	Label     string `json:"label,omitempty"` // that patterns gave its flow

	Run       Verdict        `json:"-"` // as the program answered
	IP        packet.Summary `json:"-"` // of the packet as it came
	AntiSpoof string         `json:"-"` // configured check on the logical interface: strict, loose, off
}

// The words of Explanation.Verdict.
const (
	VerdictForwarded = "forwarded"
	VerdictDropped   = "dropped"
	VerdictPunted    = "punted"
)

// VerdictOf is the word for an action of the program.
func VerdictOf(action uint32) string {
	switch action {
	case ActionRedirect:
		return VerdictForwarded
	case ActionDrop:
		return VerdictDropped
	}
	return VerdictPunted
}

// Explain runs the loaded program on a frame that arrives at a port, and says what each stage
// decided.
func (f *FastPath) Explain(frame []byte, ifindex int) (Explanation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return Explanation{}, err
	}
	v, err := f.prog.run(frame, ifindex)
	if err != nil {
		return Explanation{}, err
	}
	j := &journey{t: f.tables, verdict: v, ip: packet.Summarize(frame)}
	e := Explanation{Packet: j.ip.String(), Steps: j.steps(), Verdict: VerdictOf(v.Action), Run: v, IP: j.ip}
	e.Label = f.prog.label.Label(int(v.trace.Label))
	if v.Ingress != 0 {
		e.Interface = f.tables.nameOf(v.Ingress)
	}
	d := f.desired.Interfaces[e.Interface]
	e.AntiSpoof = string(d.AntiSpoof)
	if v.Action == ActionRedirect {
		left := packet.Summarize(v.Packet)
		e.Egress, e.Port = f.tables.nameOf(v.Egress), f.tables.nameOf(v.Port)
		e.SrcMAC, e.DstMAC = left.SrcMAC.String(), left.DstMAC.String()
		return e, nil
	}
	e.Reason, e.Text, e.Hint = v.Reason.String(), v.Reason.Text(), v.Reason.Hint()
	if v.Reason == Reason(routerReasonREASON_UNKNOWN_INTERFACE) && e.Interface != "" {
		e.Hint = fmt.Sprintf("%s has no fast path: %s", e.Interface, f.whyOff(e.Interface, d))
	}
	return e, nil
}

// Arrival is where packets of an interface arrive: a port, with VLAN tags in front, and the MAC
// that they are for.
type Arrival struct {
	Port int // ifindex
	MAC  packet.MAC
	Tags []packet.Tag

	session *packet.Session // of PPPoE, nil for none
}

// InSession is a frame as it arrives: in the session that the interface is, if it is one.
func (a Arrival) InSession(frame []byte) []byte {
	if a.session == nil {
		return frame
	}
	return packet.AddSession(frame, *a.session)
}

// ArrivalOf says how packets arrive at an interface of the router, a port or a VLAN.
func (f *FastPath) ArrivalOf(name string) (Arrival, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return Arrival{}, err
	}
	index := f.tables.indexOf(name)
	if index == 0 {
		return Arrival{}, fmt.Errorf("no interface %q: the router has %s", name, strings.Join(f.tables.names(), ", "))
	}
	l := f.tables.links[index]
	mac, ok := f.tables.ethernetOf(l)
	if !ok {
		return Arrival{}, fmt.Errorf("interface %s has no MAC address: no packets arrive on it", name)
	}
	a := Arrival{Port: index, MAC: mac}
	if l.session != nil {
		a.session = &packet.Session{ID: l.session.id, Peer: l.session.peer}
	}
	port, tags, ok := f.tables.base(index)
	if !ok {
		return a, nil // down, or under a bridge: the program will say what that means
	}
	a.Port = port.Index
	if f.tables.bridging.state.Bridges[port.Index] != nil {
		if a.Port, tags, ok = f.tables.arrivalOn(index); !ok {
			a.Port = port.Index
		}
	}
	for _, t := range tags {
		a.Tags = append(a.Tags, packet.Tag{Type: t.proto, TCI: t.id})
	}
	return a, nil
}

// names are the links of the router, but for the loopback.
func (t *tables) names() []string {
	var names []string
	for _, l := range t.links {
		if !l.Loopback {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	return names
}
