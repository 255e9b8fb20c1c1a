// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Each thing that the kernel does to forwarded packets beside routing them: while it is there, the
// wire shows what the kernel alone would do, and the program says why; when it is gone, packets
// take the fast path again.

// wayOf is one direction through the bench, in one family.
type wayOf struct {
	name  string
	frame []byte
	in    netlink.Link
	out   func(f []byte) bool // whether a frame is the packet behind the router
	far   *wire               // where it comes out
	near  *wire               // where it goes in
}

// ways are the four: both directions, both families.
func (b *bench) ways() []*wayOf {
	wireA, wireB := newWire(b.t, b.a), newWire(b.t, b.b)
	return []*wayOf{
		{"IPv4 in→out", udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18), b.in, addressed(macB), wireB, wireA},
		{"IPv6 in→out", udp6(macIn, macA, "2001:db8:a::2", "2001:db8:b::2", 64, 18), b.in, addressed(macB), wireB, wireA},
		{"IPv4 out→in", udp4(macOut, macB, "198.51.100.2", "192.0.2.2", 64, 18), b.out, addressed(macA), wireA, wireB},
		{"IPv6 out→in", udp6(macOut, macB, "2001:db8:b::2", "2001:db8:a::2", 64, 18), b.out, addressed(macA), wireA, wireB},
	}
}

// pass sends a packet the way and says whether it came out, and as what protocol of IP.
func (w *wayOf) pass(wait time.Duration) (protocol byte, came bool) {
	w.near.send(w.frame)
	got := w.far.next(wait, w.out)
	if got == nil {
		return 0, false
	}
	if got[12] == 0x08 {
		return got[23], true
	}
	return got[20], true
}

// doing is one thing of the kernel.
type doing struct {
	name string
	set  []string // commands that put it in place
	gone []string // and away
	on   func(t *testing.T, b *bench) (off func())
	held string // which ways it holds: indexes of bench.ways
	meet string // which of those meet it
	want Reason
	said string // by show fast-path
	does func(t *testing.T, w *wayOf)
}

// dropped is that no packet comes out.
func dropped(t *testing.T, w *wayOf) {
	t.Helper()
	for range 3 {
		if _, came := w.pass(20 * time.Millisecond); came {
			t.Errorf("%s: a packet came out that the kernel drops", w.name)
		}
	}
}

// passes is that packets come out.
func passes(t *testing.T, w *wayOf) {
	t.Helper()
	if protocol, came := w.pass(5 * time.Second); !came || protocol != unix.IPPROTO_UDP {
		t.Errorf("%s: protocol %d, came out %v", w.name, protocol, came)
	}
}

func shell(t testing.TB, commands []string) {
	t.Helper()
	for _, c := range commands {
		cmd := exec.Command("sh", "-c", c)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", c, err, out)
		}
	}
}

// look is what the slow clock does.
func (b *bench) look() { b.fast.Look(context.Background()) }

func (b *bench) says() string {
	o, err := b.fast.Observe(context.Background())
	must(b.t, err)
	var words []string
	for _, h := range o.Held {
		words = append(words, h.Packets+": "+h.Reason)
	}
	return strings.Join(words, "\n")
}

// holds waits until exactly these ways are the kernel's, and the program sends the packets of the others where they are to come out.
func (b *bench) holds(all []*wayOf, ways string, want Reason) {
	b.t.Helper()
	for i, w := range all {
		expected := Forwarded
		if strings.Contains(ways, fmt.Sprint(i)) {
			expected = want
		}
		eventually(b.t, fmt.Sprintf("%s: %v", w.name, expected), func() bool {
			b.look()
			v := b.run(w.frame, w.in)
			return v.Reason == expected && (expected != Forwarded || w.out(v.Packet))
		})
	}
}

var (
	byIPsec    = Reason(routerReasonREASON_IPSEC)
	byFilter   = Reason(routerReasonREASON_FOREIGN_FILTER)
	byControl  = Reason(routerReasonREASON_TRAFFIC_CONTROL)
	byOther    = Reason(routerReasonREASON_KERNEL_ONLY)
	byRouting  = Reason(routerReasonREASON_FORWARDING_OFF)
	nothing    = Forwarded
	flushTable = []string{"nft flush ruleset"}
	noQueue    = []string{"tc qdisc del dev out root"}
)

var doings = []doing{
	{name: "IPsec policy without a key yet", held: "02", meet: "0", want: byIPsec, said: "all IPv4: IPsec policy for 192.0.2.0/24 → 198.51.100.0/24", does: dropped,
		set:  []string{"ip xfrm policy add src 192.0.2.0/24 dst 198.51.100.0/24 dir out tmpl src 192.0.2.1 dst 198.51.100.2 proto esp mode tunnel"},
		gone: []string{"ip xfrm policy flush"}},
	{name: "IPsec policy that blocks", held: "13", meet: "1", want: byIPsec, said: "→ 2001:db8:b::/64 (fwd), which blocks", does: dropped,
		set:  []string{"ip xfrm policy add src ::/0 dst 2001:db8:b::/64 dir fwd action block"},
		gone: []string{"ip xfrm policy deleteall dir fwd"}},
	{name: "IPsec default", held: "0123", meet: "0123", want: byIPsec, said: "IPsec blocks what has no policy", does: dropped,
		set:  []string{"ip xfrm policy setdefault fwd block"},
		gone: []string{"ip xfrm policy setdefault fwd accept"}},
	{name: "IPsec policies of others than ports", want: nothing,
		set: []string{"ip xfrm policy add src 192.0.2.0/24 dst 0.0.0.0/0 dir out action block if_id 7",
			"ip xfrm policy add src 192.0.2.0/24 dst 0.0.0.0/0 dir fwd action block mark 7",
			"ip xfrm policy add src 192.0.2.0/24 dst 192.0.2.1/32 dir in action block"},
		gone: []string{"ip xfrm policy flush"}},

	{name: "nftables ip forward", held: "02", meet: "0", want: byFilter, said: "all IPv4: nftables chain ip f c (hook forward), which is not Minne's", does: dropped,
		set:  []string{"nft 'table ip f { chain c { type filter hook forward priority 0; ip daddr 198.51.100.2 drop; }; }'"},
		gone: flushTable},
	{name: "nftables ip6 prerouting", held: "13", meet: "13", want: byFilter, said: "hook prerouting, policy drop", does: dropped,
		set:  []string{"nft 'table ip6 f { chain c { type filter hook prerouting priority -300; policy drop; icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept; }; }'"},
		gone: flushTable},
	{name: "nftables inet postrouting", held: "0123", meet: "23", want: byFilter, said: "nftables chain inet f c (hook postrouting)", does: dropped,
		set:  []string{"nft 'table inet f { chain c { type filter hook postrouting priority 0; oifname in udp dport 5000 drop; }; }'"},
		gone: flushTable},
	{name: "nftables policy drop without rules", held: "02", meet: "02", want: byFilter, said: "hook forward, policy drop", does: dropped,
		set:  []string{"nft 'table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; }; }'"},
		gone: []string{"nft 'chain ip filter FORWARD { policy accept; }'"}},
	{name: "nftables netdev ingress", held: "01", meet: "01", want: byFilter, said: "what comes in by in: nftables chain netdev f c (hook ingress)", does: dropped,
		set:  []string{"nft 'table netdev f { chain c { type filter hook ingress device in priority 0; meta l4proto udp drop; }; }'"},
		gone: flushTable},
	{name: "nftables netdev egress", held: "01", meet: "01", want: byFilter, said: "what leaves by out: nftables chain netdev f c (hook egress)", does: dropped,
		set:  []string{"nft 'table netdev f { chain c { type filter hook egress device out priority 0; meta l4proto udp drop; }; }'"},
		gone: flushTable},
	{name: "nftables inet ingress", held: "23", meet: "2", want: byFilter, said: "what comes in by out: nftables chain inet f c (hook ingress)", does: dropped,
		set:  []string{"nft 'table inet f { chain c { type filter hook ingress device out priority 0; ip protocol udp drop; }; }'"},
		gone: flushTable},
	{name: "nftables table with a name like Minne's", held: "0123", meet: "0123", want: byFilter, said: "nftables chain inet minne_mine c (hook forward)", does: dropped,
		set:  []string{"nft 'table inet minne_mine { chain c { type filter hook forward priority 0; udp dport 5000 drop; }; }'"},
		gone: flushTable},
	{name: "nftables tables that do nothing to forwarded packets", want: nothing, // the first is Debian's /etc/nftables.conf
		set: []string{"nft 'table inet filter { chain input { type filter hook input priority filter; }; chain forward { type filter hook forward priority filter; }; chain output { type filter hook output priority filter; }; }'",
			"nft 'table ip host { chain input { type filter hook input priority 0; policy drop; udp dport 53 drop; }; chain output { type filter hook output priority 0; counter accept; }; chain hangs-on-none { drop; }; }'",
			"nft 'table inet minne_policy { chain forward { type filter hook forward priority 0; counter accept; }; }'",
			"nft 'table arp f { chain c { type filter hook input priority 0; counter accept; }; }'"},
		gone: flushTable},
	{name: "iptables-legacy", held: "02", meet: "02", want: byFilter, said: "iptables-legacy table filter, chain FORWARD, policy drop", does: dropped, on: legacyDrop},

	{name: "tc filter at ingress", held: "01", meet: "0", want: byControl, said: "what comes in by in: tc filter at ingress", does: dropped,
		set:  []string{"tc qdisc add dev in ingress", "tc filter add dev in parent ffff: protocol ip prio 1 u32 match u32 0 0 action mirred egress redirect dev in"},
		gone: []string{"tc filter del dev in ingress"}},
	{name: "ingress qdisc without filters", want: nothing,
		gone: []string{"tc qdisc del dev in ingress"}},
	{name: "tc filter at egress", held: "01", meet: "1", want: byControl, said: "what leaves by out: tc filter at egress", does: dropped,
		set:  []string{"tc qdisc add dev out clsact", "tc filter add dev out egress protocol ipv6 prio 1 u32 match u32 0 0 action mirred egress redirect dev in"},
		gone: []string{"tc filter del dev out egress"}},
	{name: "shaper", held: "01", meet: "01", want: byControl, said: "what leaves by out: queueing discipline tbf", does: passes,
		set:  []string{"tc qdisc add dev out root tbf rate 1mbit burst 2000 latency 50ms"},
		gone: noQueue},
	{name: "classes that drop", held: "01", meet: "01", want: byControl, said: "what leaves by out: queueing discipline htb", does: dropped,
		set: []string{"tc qdisc replace dev out root handle 1: htb default 10", "tc class add dev out parent 1: classid 1:10 htb rate 8bit ceil 8bit burst 1 cburst 1",
			"tc qdisc add dev out parent 1:10 pfifo limit 0"},
		gone: noQueue},
	{name: "a discipline that only queues", want: nothing,
		set:  []string{"tc qdisc add dev out root handle 7: pfifo limit 100"},
		gone: noQueue},
	{name: "tcx program at ingress", held: "23", meet: "23", want: byControl, said: "what comes in by out: tcx program", does: dropped, on: tcxDrop(ebpf.AttachTCXIngress)},
	{name: "tcx program at egress", held: "01", meet: "01", want: byControl, said: "what leaves by out: tcx program", does: dropped, on: tcxDrop(ebpf.AttachTCXEgress)},
	{name: "BPF program of the packet filter", held: "13", meet: "13", want: byFilter, said: "all IPv6: BPF program", does: dropped, on: netfilterDrop},

	{name: "path MTUs for forwarded packets", held: "02", meet: "02", want: byOther, said: "net.ipv4.ip_forward_use_pmtu is 1", does: passes,
		set:  []string{"echo 1 > /proc/sys/net/ipv4/ip_forward_use_pmtu"},
		gone: []string{"echo 0 > /proc/sys/net/ipv4/ip_forward_use_pmtu"}},
	{name: "neighbour proxy on all links", held: "13", meet: "13", want: byOther, said: "net.ipv6.conf.all.proxy_ndp is 1", does: passes,
		set:  []string{"echo 1 > /proc/sys/net/ipv6/conf/all/proxy_ndp"},
		gone: []string{"echo 0 > /proc/sys/net/ipv6/conf/all/proxy_ndp"}},
	{name: "forwarding off on a port", held: "0", meet: "0", want: byRouting, does: dropped,
		set:  []string{"echo 0 > /proc/sys/net/ipv4/conf/in/forwarding"},
		gone: []string{"echo 1 > /proc/sys/net/ipv4/conf/in/forwarding"}},
	{name: "forwarding off", held: "13", meet: "13", want: byRouting, does: dropped,
		set:  []string{"echo 0 > /proc/sys/net/ipv6/conf/all/forwarding"},
		gone: []string{"echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"}},
	{name: "macvlan that takes all", held: "01", meet: "0", want: byOther, said: "what comes in by in: macvlan interface taker takes packets from it", does: dropped,
		set:  []string{"ip link add link in name taker type macvlan mode passthru", "ip link set taker up", "echo 0 > /proc/sys/net/ipv4/conf/taker/forwarding"},
		gone: []string{"ip link del taker"}},
}

// legacyDrop makes the policy of iptables-legacy's chain FORWARD drop, as its command would.
func legacyDrop(t *testing.T, _ *bench) (off func()) {
	t.Helper()
	const hooks, forward, getInfo, getEntries, setReplace = 5, 2, 64, 65, 64
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	get := func(option int, b []byte) {
		t.Helper()
		length := uint32(len(b))
		if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_IP, uintptr(option), uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&length)), 0); errno != 0 {
			t.Fatalf("getsockopt %d: %v", option, errno)
		}
	}
	native := binary.NativeEndian
	info := make([]byte, 84) // struct ipt_getinfo
	copy(info, "filter")
	get(getInfo, info)
	size := native.Uint32(info[80:])
	entries := make([]byte, 40+size) // struct ipt_get_entries
	copy(entries, "filter")
	native.PutUint32(entries[32:], size)
	get(getEntries, entries)
	put := func(verdict int32) {
		t.Helper()
		b := make([]byte, 96, 96+size) // struct ipt_replace
		copy(b, "filter")
		copy(b[32:], info[32:36])           // hooks
		copy(b[36:], info[76:84])           // entries, bytes
		copy(b[44:], info[36:36+2*4*hooks]) // where chains begin, and their policies stand
		counters := make([]byte, 16*native.Uint32(info[76:]))
		native.PutUint32(b[84:], native.Uint32(info[76:]))
		native.PutUint64(b[88:], uint64(uintptr(unsafe.Pointer(&counters[0]))))
		b = append(b, entries[40:]...)
		policy := b[96+native.Uint32(info[56+4*forward:]):]
		native.PutUint32(policy[native.Uint16(policy[88:])+32:], uint32(verdict))
		must(t, os.NewSyscallError("setsockopt", unix.SetsockoptString(fd, unix.SOL_IP, setReplace, string(b))))
		runtime.KeepAlive(counters)
	}
	put(-1)                   // -NF_DROP - 1
	return func() { put(-2) } // -NF_ACCEPT - 1
}

// tcxDrop attaches a program to port out that drops all UDP.
func tcxDrop(at ebpf.AttachType) func(*testing.T, *bench) func() {
	return func(t *testing.T, b *bench) func() {
		t.Helper()
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, AttachType: at, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2 /* TC_ACT_SHOT */), asm.Return()}})
		must(t, err)
		t.Cleanup(func() { prog.Close() })
		l, err := link.AttachTCX(link.TCXOptions{Interface: b.out.Attrs().Index, Program: prog, Attach: at})
		must(t, err)
		return func() { must(t, l.Close()) }
	}
}

// netfilterDrop attaches a program that drops what is forwarded of IPv6.
func netfilterDrop(t *testing.T, _ *bench) (off func()) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0 /* NF_DROP */), asm.Return()}})
	must(t, err)
	t.Cleanup(func() { prog.Close() })
	l, err := link.AttachNetfilter(link.NetfilterOptions{Program: prog, ProtocolFamily: link.NetfilterProtoIPv6, Hook: link.NetfilterInetForward, Priority: -128})
	must(t, err)
	return func() { must(t, l.Close()) }
}

// TestBypassed has each of them in turn.
func TestBypassed(t *testing.T) {
	sysctl(t, "ipv6/fib_multipath_hash_policy", "1") // the kernel's own, 0, is told as well
	b := newBench(t)
	all := b.ways()
	b.holds(all, "", Forwarded)
	for _, d := range doings {
		t.Run(d.name, func(t *testing.T) {
			b := *b
			b.t = t
			off := func() { shell(t, d.gone) }
			if d.on != nil {
				off = d.on(t, &b)
			}
			shell(t, d.set)
			b.holds(all, d.held, d.want)
			for i, w := range all {
				if strings.Contains(d.meet, fmt.Sprint(i)) {
					d.does(t, w)
				} else {
					passes(t, w)
				}
			}
			if says := b.says(); !strings.Contains(says, d.said) {
				t.Errorf("show fast-path says\n%s\nnothing of %q", says, d.said)
			}
			off()
			b.holds(all, "", Forwarded)
			for _, w := range all {
				passes(t, w)
			}
			if says := b.says(); says != "" {
				t.Errorf("show fast-path still says %s", says)
			}
		})
	}
}
