// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/flow"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// pretended is a fast path that has the flows given to it.
type pretended struct {
	flows []flow.Flow
	stats flow.Stats
}

func (p *pretended) Flows(filter flow.Filter, visit func(flow.Flow) bool) {
	for _, f := range p.flows {
		if filter.Match(&f) && !visit(f) {
			return
		}
	}
}

func (p *pretended) Labels(visit func(flow.Key, string)) error {
	for _, f := range p.flows {
		if f.Label() == 1 {
			visit(f.Key[0], "a label")
		}
	}
	return nil
}

func (p *pretended) TellEnded() {}

func (p *pretended) FlowStats() (flow.Stats, bool, error) { return p.stats, true, nil }

// masqueraded is connection i of many: hosts of 127.0.0.0/8 to web servers, sent from one address.
func masqueraded(i int) *Connection {
	inside := netip.AddrFrom4([4]byte{127, 1, byte(i >> 12), byte(i >> 4)})
	server := netip.AddrFrom4([4]byte{127, 100, byte(i >> 10), byte(i >> 2)})
	outside := netip.MustParseAddr("127.200.0.1")
	return &Connection{Key: [2]flow.Key{
		{Source: inside, Destination: server, SourcePort: uint16(1024 + i&15), DestinationPort: 443, Protocol: unix.IPPROTO_UDP},
		{Source: server, Destination: outside, SourcePort: 443, DestinationPort: uint16(i), Protocol: unix.IPPROTO_UDP},
	}}
}

// create puts connections into the kernel's table.
func create(t testing.TB, c *Connection, more func(*netlink.ConntrackFlow)) {
	t.Helper()
	family := uint8(unix.AF_INET)
	if c.Key[0].Source.Is6() {
		family = unix.AF_INET6
	}
	tuple := func(k *flow.Key) netlink.IPTuple {
		return netlink.IPTuple{SrcIP: k.Source.AsSlice(), DstIP: k.Destination.AsSlice(), SrcPort: k.SourcePort, DstPort: k.DestinationPort, Protocol: k.Protocol}
	}
	f := netlink.ConntrackFlow{FamilyType: family, TimeOut: 600, Forward: tuple(&c.Key[0]), Reverse: tuple(&c.Key[1])}
	if more != nil {
		more(&f)
	}
	if err := netlink.ConntrackCreate(netlink.ConntrackTable, netlink.InetFamily(family), &f); err != nil {
		t.Fatalf("create %v: %v", c.Key, err)
	}
}

// fill puts n connections into an empty table.
func fill(t testing.TB, n int) {
	t.Helper()
	if err := netlink.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		create(t, masqueraded(i), nil)
	}
}

// none is a router without zones.
func none() map[string]string { return nil }

// asked is the question of a command line without flags.
func asked(words string) (Question, error) {
	a := Query{By: ByFlow, Sort: SortBytes, Top: defaultTop}
	if err := a.Words(strings.Fields(words)); err != nil {
		return Question{}, err
	}
	return a.Question()
}

// defaultTop is what the tag of Query.Top says.
const defaultTop = 20

func answer(t *testing.T, table *Table, words string) Answer {
	t.Helper()
	q, err := asked(words)
	if err != nil {
		t.Fatal(err)
	}
	a, err := table.List(t.Context(), q)
	if err != nil {
		t.Fatalf("%s: %v", words, err)
	}
	return a
}

func shell(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// network is a router with two zones behind veth links, and an empty table of connections.
func network(t *testing.T) map[string]string {
	t.Helper()
	shell(t, `ip link set lo up
		for i in lan wan; do ip link add $i type veth peer name $i-far; ip link set $i up; ip link set $i-far up; done
		ip addr add 192.0.2.1/24 dev lan; ip addr add 198.51.100.1/24 dev wan; ip route add default via 198.51.100.9
		ip -6 addr add 2001:db8:1::1/64 dev lan nodad; ip -6 addr add 2001:db8:2::1/64 dev wan nodad`)
	t.Cleanup(func() { shell(t, "ip link del lan; ip link del wan") })
	if err := netlink.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"lan": "inside", "wan": "outside"}
}

func key(protocol uint8, from, to string) flow.Key {
	a, b := netip.MustParseAddrPort(from), netip.MustParseAddrPort(to)
	return flow.Key{Source: a.Addr(), SourcePort: a.Port(), Destination: b.Addr(), DestinationPort: b.Port(), Protocol: protocol}
}

// examples are connections of a small site: masqueraded, forwarded, IPv6, to the router.
var examples = []*Connection{
	{Key: [2]flow.Key{key(6, "192.0.2.10:40000", "203.0.113.5:443"), key(6, "203.0.113.5:443", "198.51.100.1:50000")}, tcp: 3},
	{Key: [2]flow.Key{key(6, "203.0.113.77:1234", "198.51.100.1:8080"), key(6, "192.0.2.20:80", "203.0.113.77:1234")}, tcp: 7},
	{Key: [2]flow.Key{key(17, "[2001:db8:1::10]:5000", "[2001:db8:2::5]:53"), key(17, "[2001:db8:2::5]:53", "[2001:db8:1::10]:5000")}},
	{Key: [2]flow.Key{key(6, "192.0.2.10:40001", "192.0.2.1:22"), key(6, "192.0.2.1:22", "192.0.2.10:40001")}, tcp: 3},
}

func createExamples(t *testing.T) {
	t.Helper()
	for _, c := range examples {
		create(t, c, func(f *netlink.ConntrackFlow) {
			if c.tcp != 0 {
				f.ProtoInfo = &netlink.ProtoInfoTCP{State: c.tcp}
			}
		})
	}
}

func TestFiltersAndZones(t *testing.T) {
	zones := network(t)
	createExamples(t)
	// The first is carried by the fast path, too.
	fast := &pretended{flows: []flow.Flow{{Key: examples[0].Key, Packets: [2]uint64{10, 20}, Bytes: [2]uint64{10 * 100, 20 * 1500}}}}
	table := New(fast, func() map[string]string { return zones })
	for words, want := range map[string]string{
		"":                       "0 1 2 3",
		"src 192.0.2.10":         "0 3",
		"src 198.51.100.0/24":    "0", // as it is seen outside
		"dst 192.0.2.0/24":       "1 3",
		"dst 198.51.100.1":       "1", // as it was called
		"host 203.0.113.0/24":    "0 1",
		"host 2001:db8:1::/48":   "2",
		"port 80":                "1",
		"port 50000":             "0",
		"proto udp":              "2",
		"proto 6 port 443":       "0",
		"proto icmp":             "",
		"zone inside":            "0 1 2 3",
		"zone outside":           "0 1 2",
		"zone self":              "3",
		"state established":      "0 3",
		"state time-wait":        "1",
		"state unreplied":        "2",
		"fast-path":              "0",
		"kernel proto tcp":       "1 3",
		"zone self fast-path":    "",
		"src 0.0.0.0/0 proto 17": "",
	} {
		var got []string
		for _, f := range answer(t, table, words).Flows {
			for i, c := range examples {
				if f.Source == c.Opener() && f.Destination == c.Responder() {
					got = append(got, strconv.Itoa(i))
				}
			}
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: connections %s, expected %s", words, s, want)
		}
	}

	first := answer(t, table, "").Flows[0] // the only one with bytes
	text := fmt.Sprintf("%s %v>%v as %v %v %s>%s %s %s %v %v", first.Protocol, first.Source, first.Destination, first.TranslatedSource,
		first.TranslatedDestination, first.From, first.To, first.State, first.Path, first.Packets, first.Bytes)
	if text != "tcp 192.0.2.10:40000>203.0.113.5:443 as 198.51.100.1:50000 <nil> inside>outside established fast-path [10 20] [1000 30000]" {
		t.Errorf("first: %s", text)
	}
	if first.Left < 500 || first.Left > 600 {
		t.Errorf("%d seconds left of 600", first.Left)
	}

	hosts := byHost(t, table, "zone inside")
	if got := fmt.Sprint(hostWords(hosts)); got != "[192.0.2.10 inside 2 2 [10 20] 192.0.2.20 inside 1 0 [0 0] 2001:db8:1::10 inside 1 1 [0 0]]" {
		t.Errorf("hosts inside: %s", got)
	}
	if got := fmt.Sprint(hostWords(byHost(t, table, "dst 203.0.113.5"))); got != "[203.0.113.5 outside 1 0 [20 10]]" {
		t.Errorf("hosts that are spoken to: %s", got)
	}
	q := Question{By: ByZone, Sort: SortConnections, Top: 2}
	a, err := table.List(t.Context(), q)
	if err != nil || a.Rows != 3 || len(a.Zones) != 2 || a.Zones[0].From != "inside" || a.Zones[0].To != "outside" || a.Zones[0].Connections != 2 {
		t.Errorf("zones: %+v, %v", a, err)
	}
	q = Question{Filter: Filter{Zone: "attic"}, By: ByFlow, Sort: SortBytes, Top: 2}
	if _, err := table.List(t.Context(), q); err == nil || !strings.Contains(err.Error(), "one of inside, outside, self") {
		t.Errorf("unknown zone: %v", err)
	}
}

func byHost(t *testing.T, table *Table, words string) Answer {
	t.Helper()
	q, err := asked(words)
	if err != nil {
		t.Fatal(err)
	}
	q.By = ByHost
	a, err := table.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func hostWords(a Answer) (list []string) {
	for _, h := range a.Hosts {
		list = append(list, fmt.Sprint(h.Address, " ", h.Zone, " ", h.Connections, " ", h.Opened, " ", h.Packets))
	}
	return list
}

func TestSummary(t *testing.T) {
	zones := network(t)
	createExamples(t)
	fast := &pretended{stats: flow.Stats{Capacity: 1000, Entries: 2}, flows: []flow.Flow{
		{Key: examples[0].Key, Packets: [2]uint64{3, 1}, Bytes: [2]uint64{3000, 1000}},
		{Key: [2]flow.Key{key(6, "192.0.2.99:1", "203.0.113.5:2")}, Packets: [2]uint64{99, 99}}, // the kernel no longer has it
	}}
	s, err := New(fast, func() map[string]string { return zones }).Summarize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Connections != 4 || s.IPv6 != 1 || s.Capacity < 1024 || s.Buckets < 1024 || s.Translated != (TranslatedCounts{1, 1}) {
		t.Errorf("%+v", s)
	}
	if got := fmt.Sprint(s.Protocols); got != "[{tcp 3 [{established 2} {time-wait 1}]} {udp 1 [{unreplied 1}]}]" {
		t.Errorf("protocols: %s", got)
	}
	if s.Sum.Packets != [2]uint64{3, 1} || s.Sum.FastPath != 4 || s.Sum.Bytes != [2]uint64{3000, 1000} {
		t.Errorf("sum: %+v", s.Sum)
	}
	if s.FastPath == nil || s.FastPath.Connections != 1 || s.FastPath.Without != 1 || s.FastPath.Table.Capacity != 1000 {
		t.Errorf("fast path: %+v", s.FastPath)
	}
	if s.Zones[0].From != "inside" || s.Zones[0].To != "outside" || s.Zones[0].Connections != 2 || s.Zones[0].FastPath != 4 {
		t.Errorf("zones: %+v", s.Zones)
	}
	if without, err := New(nil, none).Summarize(t.Context()); err != nil || without.FastPath != nil || without.Zones != nil {
		t.Errorf("without fast path and firewall: %+v, %v", without, err)
	}
}

// TestOneBook sends packets through conntrack, whose counters are then the kernel's, and
// lets a fast path claim to have forwarded some more of one connection.
func TestOneBook(t *testing.T) {
	network(t)
	shell(t, "echo 1 > /proc/sys/net/netfilter/nf_conntrack_acct; nft 'add table inet t; add chain inet t c { type filter hook input priority 0; }; add rule inet t c ct state invalid counter'")
	t.Cleanup(func() { shell(t, "nft delete table inet t; echo 0 > /proc/sys/net/netfilter/nf_conntrack_acct") })
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := net.Dial("udp", server.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	send := func(n int) {
		b := make([]byte, 72)
		for range n {
			_, err1 := client.Write(b)
			_, from, err2 := server.ReadFrom(b)
			_, err3 := server.WriteTo(b, from)
			_, err4 := client.Read(b)
			if err := errors.Join(err1, err2, err3, err4); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(5)
	shell(t, "ping -c 1 -W 5 127.0.0.1")

	fast := &pretended{flows: []flow.Flow{{Key: [2]flow.Key{key(17, client.LocalAddr().String(), server.LocalAddr().String())},
		Packets: [2]uint64{7, 1}, Bytes: [2]uint64{7 * 100, 100}}}}
	table := New(fast, none)
	a := answer(t, table, "proto udp")
	if len(a.Flows) != 1 || a.Flows[0].Packets != [2]uint64{12, 6} || a.Flows[0].Bytes != [2]uint64{1200, 600} || a.Flows[0].FastPath != 8 {
		t.Fatalf("%+v", a)
	}
	if f := a.Flows[0]; f.State != replied || a.Uncounted != 0 || f.TranslatedSource != nil || f.TranslatedDestination != nil {
		t.Errorf("%+v", f)
	}
	if a := answer(t, New(nil, none), "proto udp"); a.Flows[0].Packets != [2]uint64{5, 5} || a.Flows[0].Path != PathKernel {
		t.Errorf("the kernel's alone: %+v", a.Flows)
	}
	echo := answer(t, table, "proto icmp")
	if len(echo.Flows) != 1 || echo.Flows[0].ID == 0 || echo.Flows[0].Source.Port != 0 || echo.Flows[0].Packets != [2]uint64{1, 1} || echo.Flows[0].Bytes != [2]uint64{84, 84} {
		t.Errorf("ping: %+v", echo.Flows)
	}

	// Rates are of what came since the first look; what there was before does not count.
	q := Question{By: ByFlow, Sort: SortRate, Top: 5}
	e, err := table.look(t.Context(), q, nil)
	if err != nil {
		t.Fatal(err)
	}
	send(3)
	fast.flows[0].Packets[0] += 4
	fast.flows[0].Bytes[0] += 4 * 100
	var rate *Rate
	if _, err := table.each(t.Context(), flow.Filter{}, func(c *Connection) {
		if c.Key[0].Protocol == 17 {
			rate = e.rate(c, e.at.Add(2*time.Second))
		}
	}); err != nil {
		t.Fatal(err)
	}
	if rate == nil || rate.Packets != [2]float64{3.5, 1.5} || rate.Bits != [2]float64{2800, 1200} {
		t.Errorf("rate %+v", rate)
	}
	fast.flows = nil // the fast path has given the flow up: less is counted than before
	if a := answer(t, table, "proto udp"); a.Flows[0].Packets != [2]uint64{8, 8} {
		t.Errorf("%+v", a.Flows)
	}
	if r := e.rate(&Connection{Key: [2]flow.Key{key(17, client.LocalAddr().String(), server.LocalAddr().String())}}, e.at.Add(time.Second)); r.Packets != [2]float64{} {
		t.Errorf("a counter that shrank: %+v", r)
	}
}

// TestTopOfMany compares the top of many with all of them sorted.
func TestTopOfMany(t *testing.T) {
	network(t)
	const n = 3000
	fill(t, n)
	fast := &pretended{}
	for i := range n {
		fast.flows = append(fast.flows, flow.Flow{Key: [2]flow.Key{masqueraded(i).Key[0]}, Packets: [2]uint64{1, 0}, Bytes: [2]uint64{uint64(i * 7919 % n), 0}})
	}
	table := New(fast, none)
	for _, top := range []int{1, 20, 2*n + 1} {
		a, err := table.List(t.Context(), Question{By: ByFlow, Sort: SortBytes, Top: top})
		if err != nil || a.Rows != n || a.Matched != n || len(a.Flows) != min(top, n) {
			t.Fatalf("top %d: %d rows, %d shown, %v", top, a.Rows, len(a.Flows), err)
		}
		for i, f := range a.Flows {
			if f.Bytes[0] != uint64(n-1-i) {
				t.Fatalf("top %d: row %d has %d bytes", top, i, f.Bytes[0])
			}
		}
	}
	if a := byHost(t, table, ""); a.Rows < 2 || len(a.Hosts) != defaultTop || a.Hosts[0].Connections == 0 {
		t.Errorf("hosts: %+v", a)
	}
}

func TestQuestionsThatAreRefused(t *testing.T) {
	for words, want := range map[string]string{
		"source 10.0.0.1":     `"source": expected src, dst`,
		"src":                 "expected a value after it",
		"src 10.0.0.0/33":     "expected an address or a prefix",
		"src fe80::1%lan":     "expected an address or a prefix",
		"port 0":              "from 1 to 65535",
		"port 70000":          "from 1 to 65535",
		"proto tcpp":          "expected tcp, udp, icmp or a number",
		"proto 256":           "expected tcp, udp, icmp or a number",
		"state open":          "expected one of none, syn-sent",
		"src 10.1.1.1 src ::": "given twice",
		"fast-path kernel":    "given twice",
	} {
		if _, err := asked(words); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", words, err, want)
		}
	}
	for want, a := range map[string]Query{
		"top 0: expected a number from 1 to 10000":         {By: ByFlow, Sort: SortBytes},
		"top 10001: expected":                              {By: ByFlow, Sort: SortBytes, Top: 10001},
		"expected one of flow, host, zone":                 {By: "port", Sort: SortBytes, Top: 1},
		"expected one of bytes, rate, connections":         {By: ByFlow, Sort: "packets", Top: 1},
		"a flow is one connection; use by host or by zone": {By: ByFlow, Sort: SortConnections, Top: 1},
	} {
		if _, err := a.Question(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, expected %q", a, err, want)
		}
	}
}

// TestDamagedMessages: what the kernel would never send does no harm.
func TestDamagedMessages(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	for range 100_000 {
		b := make([]byte, random.IntN(80))
		for i := range b {
			b[i] = byte(random.IntN(256) >> random.IntN(8)) // small numbers are lengths and types
		}
		var c Connection
		c.decode(b)
	}
}
