// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"minne/internal/lab"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// fresh moves the test to a thread in an empty network namespace that ends with it.
func fresh(t *testing.T, commands ...string) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	for _, c := range append([]string{"ip link set lo up"}, commands...) {
		do(t, c)
	}
}

func do(t *testing.T, command string) string {
	t.Helper()
	words := strings.Fields(command)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

func look(t *testing.T, name string) Facts {
	t.Helper()
	f, err := Look(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLookTellsTheFacts(t *testing.T) {
	fresh(t,
		"ip link add one numtxqueues 4 numrxqueues 4 address 02:00:00:00:00:07 type veth peer name two numtxqueues 2 numrxqueues 2",
		"ip link set one mtu 9000", "ip link property add dev one altname generator-port",
		"ip link set two up", "ip address add 198.18.0.1/24 dev two", "ip address add fe80::5/64 dev two nodad",
	)
	one := look(t, "generator-port")
	if one.Name != "one" || one.Driver != "veth" || one.Kind != "veth" || one.MAC != "02:00:00:00:00:07" || one.MTU != 9000 || one.Speed != 0 {
		t.Errorf("%+v", one)
	}
	if one.Up || one.Carrier || one.Program != nil || one.Master != "" || len(one.Uses) != 0 || len(one.Addresses) != 0 {
		t.Errorf("%+v", one)
	}
	if q := one.Queues; q.MostReceive != 4 || q.MostTransmit != 4 || q.Receive == 0 || q.Transmit == 0 {
		t.Errorf("queues %+v", q)
	}
	if !one.XDP.Known || !one.XDP.Native || !one.XDP.Redirect || !one.XDP.Frags || one.XDP.ZeroCopy {
		t.Errorf("XDP: %+v", one.XDP)
	}
	if !one.StripsTags {
		t.Error("a veth is said to keep VLAN tags, although its rx-vlan-offload is on")
	}
	do(t, "ethtool -K one rxvlan off")
	if look(t, "one").StripsTags {
		t.Error("a veth is said to take VLAN tags off, although its rx-vlan-offload is off")
	}
	two := look(t, "two")
	if !two.Up || two.Carrier || len(two.Addresses) != 1 || two.Addresses[0] != "198.18.0.1/24" {
		t.Errorf("%+v", two)
	}
	do(t, "ip link set one up")
	if err := AwaitCarrier(t.Context(), 5*time.Second, "one", "two"); err != nil {
		t.Error(err)
	}
	if two = look(t, "two"); !two.Carrier {
		t.Errorf("no carrier although both ends are up: %+v", two)
	}
}

func TestAll(t *testing.T) {
	fresh(t, "ip link add one type veth peer name two")
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range all {
		names = append(names, f.Name+" "+f.Driver)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"one veth", "two veth"}) {
		t.Errorf("ports %q", names)
	}
}

// A veth takes frames for XDP once its other end has a program or GRO.
func TestTransmitFollowsThePeer(t *testing.T) {
	fresh(t, "ip link add one type veth peer name two", "ip link set one up", "ip link set two up")
	if x := look(t, "one").XDP; x.Transmit {
		t.Errorf("%+v before", x)
	}
	do(t, "ethtool -K two gro on")
	do(t, "ethtool -K one gro on")
	if x := look(t, "one").XDP; !x.Transmit {
		t.Errorf("%+v with GRO at both ends", x)
	}
}

// TestReceiveThreads gives one of two ports threads, which are then known by their names too.
func TestReceiveThreads(t *testing.T) {
	fresh(t,
		"ip link add one numtxqueues 2 numrxqueues 2 type veth peer name two numtxqueues 2 numrxqueues 2", "ip link set one up", "ip link set two up",
		"ethtool -K one gro on", "ethtool -K two gro on",
	)
	if pids, err := ReceiveThreads(look(t, "one").Index); err != nil || len(pids) != 0 {
		t.Fatalf("threads %v (%v) of a port that was given none", pids, err)
	}
	// What is mounted shows the namespace of whoever mounted it.
	threaded := exec.Command("unshare", "--mount", "sh", "-c", "mount -t sysfs sysfs /sys && echo 1 >/sys/class/net/one/threaded")
	if out, err := threaded.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pids, err := ReceiveThreads(look(t, "one").Index)
	if err != nil || len(pids) != 2 {
		t.Fatalf("threads %v (%v): expected one for each of two queues", pids, err)
	}
	for _, pid := range pids {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil || !strings.HasPrefix(string(name), "napi/one-") {
			t.Errorf("process %d is %q (%v): expected a receive thread", pid, name, err)
		}
	}
	if pids, err := ReceiveThreads(look(t, "two").Index); err != nil || len(pids) != 0 {
		t.Errorf("threads %v (%v) of the other port", pids, err)
	}
}

func TestUnknownPortsAreRefusedWithThoseThereAre(t *testing.T) {
	fresh(t)
	refused(t, "this machine has none but the loopback", "eth0")
	do(t, "ip link add eth1 type bridge")
	refused(t, `no port "eth0": there is only eth1; did you mean eth1?`, "eth0")
	do(t, "ip link add lan0 type bridge")
	refused(t, "there are eth1, lan0", "wifi")
}

// refused wants Check to refuse with these words, with and without force.
func refused(t *testing.T, says string, names ...string) {
	t.Helper()
	for _, force := range []bool{false, true} {
		if _, err := Check(force, names...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, expected %q", names, err, says)
		}
	}
}

// needsForce wants Check to refuse with these words unless forced.
func needsForce(t *testing.T, name, says string) {
	t.Helper()
	if _, err := Check(false, name); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, expected %q", name, err, says)
	}
	if f, err := Check(true, name); err != nil || len(f) != 1 {
		t.Errorf("%s with force: %v", name, err)
	}
}

func TestPortsThatNoMeasurementMayTake(t *testing.T) {
	fresh(t,
		"ip link add one type veth peer name two", "ip link property add dev one altname other",
		"ip link add link one name one.7 type macvlan", "ip link add br0 type bridge",
	)
	refused(t, "nothing can be cabled", "lo")
	refused(t, "one and other are one port", "one", "other")
	refused(t, "is a bridge, not a network card", "br0")
	refused(t, "is a macvlan, not a network card", "one.7")
	if all, err := Check(false, "one", "two"); err != nil || len(all) != 2 || all[1].Name != "two" {
		t.Errorf("%+v (%v)", all, err)
	}
	// All reasons at once.
	if _, err := Check(false, "lo", "nothing"); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("%v, expected two lines", err)
	}
}

func TestSomebodyElsesProgramIsNamed(t *testing.T) {
	fresh(t, "ip link add one type veth peer name two")
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "guardian", Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
	})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, mode := range []struct {
		flags link.XDPAttachFlags
		word  string
	}{{link.XDPDriverMode, "native"}, {link.XDPGenericMode, "generic"}} {
		l, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: look(t, "one").Index, Flags: mode.flags})
		if err != nil {
			t.Fatal(err)
		}
		f := look(t, "one")
		if f.Program == nil || f.Program.Name != "guardian" || f.Program.Mode != mode.word || f.Program.ID == 0 {
			t.Errorf("program %+v", f.Program)
		}
		refused(t, "carries the XDP program guardian", "one")
		l.Close()
		if _, err := Check(false, "one"); err != nil {
			t.Errorf("after the program has gone: %v", err)
		}
	}
}

func TestTheDefaultRouteIsNotCutOff(t *testing.T) {
	fresh(t,
		"ip link add one type veth peer name two", "ip link set one up", "ip link set two up",
		"ip link add free type veth peer name other",
		"ip address add 198.18.0.1/24 dev one", "ip route add default via 198.18.0.2",
	)
	needsForce(t, "one", "carries the IPv4 default route, which")
	for _, name := range []string{"two", "free"} {
		if _, err := Check(false, name); err != nil {
			t.Error(err)
		}
	}
	// On an interface on top of the port (a VLAN, say, or as here a macvlan), and on a bridge that the port belongs to.
	do(t, "ip route del default")
	do(t, "ip link add link one name one.7 type macvlan")
	do(t, "ip link set one.7 up")
	do(t, "ip -6 address add 2001:db8::1/64 dev one.7 nodad")
	do(t, "ip -6 route add default via 2001:db8::2")
	needsForce(t, "one", "the IPv6 default route by way of one.7")
	do(t, "ip link del one.7")
	do(t, "ip link add br0 type bridge")
	do(t, "ip link set two master br0")
	do(t, "ip link set br0 up")
	needsForce(t, "two", "port two belongs to br0: take it out")
	do(t, "ip address add 192.0.2.1/24 dev br0")
	do(t, "ip route add default nexthop via 192.0.2.2 nexthop via 198.18.0.9")
	needsForce(t, "two", "the IPv4 default route by way of br0")
	needsForce(t, "one", "the IPv4 default route")
}

func TestTheOperatorsSessionIsNotCutOff(t *testing.T) {
	port := func(node, name, address string) lab.Port {
		return lab.Port{Node: node, Name: name, Addresses: []netip.Prefix{netip.MustParsePrefix(address)}}
	}
	l, err := lab.Start(t.Context(), lab.Topology{
		Nodes: []lab.Node{{Name: "box"}, {Name: "operator"}},
		Links: []lab.Link{
			{A: port("box", "eth0", "192.0.2.1/24"), B: port("operator", "eth0", "192.0.2.9/24")},
			{A: port("box", "eth1", "2001:db8::1/64"), B: port("operator", "eth1", "2001:db8::9/64")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var server net.Listener
	err = l.Node("box").Do(func() (err error) { server, err = net.Listen("tcp", ":22"); return err })
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	check := func(name string) (err error) {
		l.Node("box").Do(func() error { _, err = Check(false, name); return nil })
		return err
	}
	for _, name := range []string{"eth0", "eth1"} {
		if err := check(name); err != nil {
			t.Errorf("without a session: %v", err)
		}
	}
	for _, c := range []struct{ server, port, says string }{
		{"192.0.2.1:22", "eth0", "the SSH session from 192.0.2.9"},
		{"[2001:db8::1]:22", "eth1", "the SSH session from 2001:db8::9"},
	} {
		var client net.Conn
		err = l.Node("operator").Do(func() (err error) { client, err = net.DialTimeout("tcp", c.server, 5*time.Second); return err })
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := check(c.port); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, expected %q", err, c.says)
		}
	}
}

func TestPrepareAndRestore(t *testing.T) {
	fresh(t, "ip link add one type veth peer name two", "ip link set two up", "ethtool -K one gro on")
	settings := func() string {
		return strings.Join([]string{do(t, "ethtool -k one"), strings.Fields(do(t, "ip -o link show one"))[2]}, "\n")
	}
	before := settings()
	if !strings.Contains(before, "rx-vlan-offload: on") || strings.Contains(before, "PROMISC") {
		t.Fatalf("the test needs another port:\n%s", before)
	}
	p, err := Prepare("one")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.Changed, ", "); got != "up, promiscuous, GRO off, VLAN tag removal off" || len(p.Refused) > 0 {
		t.Errorf("changed: %s; refused: %q", got, p.Refused)
	}
	during := settings()
	for _, word := range []string{"PROMISC", "UP", "generic-receive-offload: off", "rx-vlan-offload: off"} {
		if !strings.Contains(during, word) {
			t.Errorf("prepared without %q:\n%s", word, during)
		}
	}
	// What is as it should be already is neither changed nor "restored".
	second, err := Prepare("one")
	if err != nil || len(second.Changed) != 0 {
		t.Errorf("second time: %+v (%v)", second, err)
	}
	if err := second.Restore(); err != nil || settings() != during {
		t.Errorf("a restore of nothing changed something (%v)", err)
	}
	if err := p.Restore(); err != nil {
		t.Error(err)
	}
	if after := settings(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if err := p.Restore(); err != nil {
		t.Errorf("restored twice: %v", err)
	}
}

func TestPrepareOfAPortThatGoesAway(t *testing.T) {
	fresh(t, "ip link add one type veth peer name two")
	if _, err := Prepare("nothing"); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("%v", err)
	}
	p, err := Prepare("one")
	if err != nil {
		t.Fatal(err)
	}
	do(t, "ip link del one")
	if err := p.Restore(); err == nil || !strings.Contains(err.Error(), "restore port one") {
		t.Errorf("%v, expected that it says what could not be restored", err)
	}
	if err := AwaitCarrier(t.Context(), time.Second, "one"); err == nil {
		t.Error("a link on a port that has gone")
	}
}

func TestNoCarrierIsTold(t *testing.T) {
	fresh(t, "ip link add one type veth peer name two", "ip link set one up")
	err := AwaitCarrier(t.Context(), time.Millisecond, "one")
	if err == nil || !strings.Contains(err.Error(), "no link on one") {
		t.Error(err)
	}
}
