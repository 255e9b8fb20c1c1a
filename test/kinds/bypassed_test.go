// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// bypassModules are what the kernel inside needs for the things below.
var bypassModules = []string{"sch_netem", "sch_fq", "sch_ingress", "cls_matchall", "act_gact"}

// bypassed is something that the kernel does to packets and the fast path can't repeat.
type bypassed struct {
	name     string
	on       func(t *testing.T) (off func() error)
	from, to string                                         // stations whose packets meet it
	beside   string                                         // one whose packets don't
	said     string                                         // by show fast-path
	check    func(t *testing.T, sent time.Time, got []byte) // what came out of the router, nil for nothing
}

const delay = 400 * time.Millisecond

var bypasses = []bypassed{
	{name: "netem", from: "red", to: "plain", said: "what leaves by plain: queueing discipline netem",
		on: func(t *testing.T) func() error {
			return addQdisc(t, netlink.NewNetem(root(t, "plain"), netlink.NetemQdiscAttrs{Latency: uint32(delay.Microseconds())}))
		},
		check: func(t *testing.T, sent time.Time, got []byte) {
			if got == nil || time.Since(sent) < delay {
				t.Errorf("%x after %v", got, time.Since(sent))
			}
		}},
	{name: "a rate of fq", from: "red", to: "plain", said: "what leaves by plain: queueing discipline fq with maxrate",
		on: func(t *testing.T) func() error {
			fq := netlink.NewFq(root(t, "plain"))
			fq.FlowMaxRate = 1 << 20
			return addQdisc(t, fq)
		}, check: comes},
	{name: "a filter on a VLAN", from: "red", to: "plain", beside: "blue", said: "what comes in by red: tc filter at ingress",
		on: func(t *testing.T) func() error { return dropAtIngress(t, "red") }, check: isDropped},
	{name: "a filter below two VLANs", from: "blue", to: "plain", said: "what comes in by blue: tc filter at ingress",
		on: func(t *testing.T) func() error { return dropAtIngress(t, "trunk") }, check: isDropped},
	{name: "priorities in tags", from: "plain", to: "red", beside: "blue", said: "what leaves by red: egress-qos-map writes priorities into VLAN tags",
		on: func(t *testing.T) func() error {
			must(t, priority(t, 5))
			return func() error { return priority(t, 0) }
		},
		check: func(t *testing.T, _ time.Time, got []byte) {
			if len(got) < 16 || got[14]>>5 != 5 {
				t.Errorf("%x came out, without priority 5", got)
			}
		}},
	{name: "an XDP program on a VLAN", from: "red", to: "plain", beside: "blue", said: "what comes in by red: XDP program", on: dropOnVLAN, check: isDropped},
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func indexOf(t *testing.T, name string) int {
	t.Helper()
	l, err := netlink.LinkByName(name)
	must(t, err)
	return l.Attrs().Index
}

// root is where a queueing discipline of an interface stands.
func root(t *testing.T, name string) netlink.QdiscAttrs {
	return netlink.QdiscAttrs{LinkIndex: indexOf(t, name), Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(7, 0)}
}

func addQdisc(t *testing.T, q netlink.Qdisc) (off func() error) {
	t.Helper()
	must(t, netlink.QdiscReplace(q))
	return func() error { return netlink.QdiscDel(q) }
}

// dropAtIngress drops everything that an interface receives.
func dropAtIngress(t *testing.T, name string) (off func() error) {
	t.Helper()
	index := indexOf(t, name)
	off = addQdisc(t, &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Parent: netlink.HANDLE_CLSACT, Handle: netlink.MakeHandle(0xffff, 0)}})
	must(t, netlink.FilterAdd(&netlink.MatchAll{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Priority: 1, Protocol: unix.ETH_P_ALL},
		Actions:     []netlink.Action{&netlink.GenericAction{ActionAttrs: netlink.ActionAttrs{Action: netlink.TC_ACT_SHOT}}},
	}))
	return off
}

// priority has the VLAN interface red write a priority into its tags.
func priority(t *testing.T, to uint32) error {
	red := nl.NewIfInfomsg(unix.AF_UNSPEC)
	red.Index = int32(indexOf(t, "red"))
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, []byte("vlan"))
	about := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	mapping := binary.NativeEndian.AppendUint32(make([]byte, 4), to) // struct ifla_vlan_qos_mapping: from, to
	about.AddRtAttr(nl.IFLA_VLAN_EGRESS_QOS, nil).AddRtAttr(nl.IFLA_VLAN_QOS_MAPPING, mapping)
	request := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	request.AddData(red)
	request.AddData(info)
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

func comes(t *testing.T, _ time.Time, got []byte) {
	if got == nil {
		t.Error("nothing came out")
	}
}

func isDropped(t *testing.T, _ time.Time, got []byte) {
	if got != nil {
		t.Errorf("%x came out", got)
	}
}

// dropOnVLAN attaches a program to the interface red.
func dropOnVLAN(t *testing.T) (off func() error) {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1 /* XDP_DROP */), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: indexOf(t, "red"), Flags: link.XDPGenericMode})
	if err != nil {
		t.Fatal(err)
	}
	return func() error { return errors.Join(l.Close(), prog.Close()) }
}

// checkBypassed puts each of them in place under a running router, and takes it away again.
func checkBypassed(t *testing.T, r running, trunk, plain host) {
	own := ownMACs(t)
	wires := map[string]wire{"red": trunk.wire(t), "plain": plain.wire(t)}
	wires["blue"] = wires["red"]
	send := func(t *testing.T, from, to string) (time.Time, []byte) {
		a, b, mark := stations[from], stations[to], []byte("past "+t.Name())
		sent := frame(a.mac, own[from], a.tags, netip.MustParseAddr(a.v4), netip.MustParseAddr(b.v4), 64, mark)
		at := time.Now()
		wires[from].send(t, sent)
		return at, wires[to].receive(t, func(f []byte) bool {
			return bytes.Contains(f, mark) && bytes.Equal(f[:6], b.mac[:])
		})
	}
	fast := func(t *testing.T, from, to string) bool {
		before := r.forwarded(t, to)
		_, got := send(t, from, to)
		return got != nil && r.forwarded(t, to) > before
	}
	said := func(t *testing.T) string {
		out, err := r.minne("show", "fast-path")
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.Join(strings.Fields(out), " ") // whatever the width of the terminal
	}
	for _, c := range bypasses {
		t.Run(c.name, func(t *testing.T) {
			off := c.on(t)
			until(t, "show fast-path says "+c.said, func() bool { return strings.Contains(said(t), c.said) })
			before := r.forwarded(t, c.to)
			at, got := send(t, c.from, c.to)
			c.check(t, at, got)
			if after := r.forwarded(t, c.to); after != before {
				t.Errorf("the fast path forwarded it")
			}
			if c.beside != "" && !fast(t, c.beside, "plain") {
				t.Errorf("packets from %s, which has nothing to do with it, don't take the fast path", c.beside)
			}
			must(t, off())
			until(t, "the fast path is back", func() bool { return fast(t, c.from, c.to) })
			if s := said(t); strings.Contains(s, "The kernel forwards") {
				t.Errorf("show fast-path still says: %s", s)
			}
		})
	}
}
