// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// neighbour is a network namespace behind a port of a box: a provider, or a
// computer in the LAN.
type neighbour struct {
	t     *testing.T
	netns string // path
	dir   string
}

// newNeighbour moves the far end of a box's port into a namespace of its own.
func (b *box) newNeighbour(port string) *neighbour {
	b.t.Helper()
	n := &neighbour{t: b.t, netns: newNetns(b.t), dir: b.t.TempDir()}
	ns, err := netns.GetFromPath(n.netns)
	if err != nil {
		b.t.Fatal(err)
	}
	defer ns.Close()
	far, err := b.links.LinkByName(port + "-far")
	if err == nil {
		err = b.links.LinkSetNsFd(far, int(ns))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	n.run("ip link set lo up && ip link set " + port + "-far name eth0 && ip link set eth0 up")
	return n
}

// command runs in the namespace.
func (n *neighbour) command(ctx context.Context, line string) *exec.Cmd {
	c := exec.CommandContext(ctx, "nsenter", "--net="+n.netns, "sh", "-c", line)
	c.Dir = n.dir
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

// try runs a command line and returns what it prints.
func (n *neighbour) try(line string) (string, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	out, err := n.command(ctx, line).CombinedOutput()
	return string(out), err
}

func (n *neighbour) run(line string) string {
	n.t.Helper()
	out, err := n.try(line)
	if err != nil {
		n.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

// write writes a file into the directory that commands run in.
func (n *neighbour) write(name, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// serve runs a program in the namespace until the test ends.
func (n *neighbour) serve(line string) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := n.command(ctx, line)
	if err := c.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		cancel()
		_ = c.Wait()
	})
}

// inside calls f on a thread in the namespace.
func (n *neighbour) inside(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		ns, err := os.Open(n.netns)
		if err == nil {
			defer ns.Close()
			if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
				err = f()
			}
		}
		done <- err
	}()
	return <-done
}

// dial connects from the namespace: a socket stays where it was made.
func (n *neighbour) dial(network, address string) (conn net.Conn, err error) {
	inside := n.inside(func() error {
		conn, err = net.DialTimeout(network, address, 5*time.Second)
		return err
	})
	return conn, inside
}

// resolve asks a DNS server for the addresses of a name.
func (n *neighbour) resolve(server, name string) (found string) {
	r := net.Resolver{PreferGo: true, Dial: func(_ context.Context, network, _ string) (net.Conn, error) {
		return n.dial(network, net.JoinHostPort(server, "53"))
	}}
	ctx, cancel := context.WithTimeout(n.t.Context(), 10*time.Second)
	defer cancel()
	addresses, err := r.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return err.Error()
	}
	for _, a := range addresses {
		found += a.String()
	}
	return found
}

// time says whether an NTP server answers a client (RFC 5905: version 4, mode 3; the answer is mode 4).
func (n *neighbour) time(server string) bool {
	conn, err := n.dial("udp", server+":123")
	if err != nil {
		return false
	}
	defer conn.Close()
	packet := make([]byte, 48)
	packet[0] = 4<<3 | 3
	if _, err := conn.Write(packet); err != nil {
		return false
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	size, err := conn.Read(packet)
	return err == nil && size == 48 && packet[0]&7 == 4
}

// provider is a network with a DHCP server and a DNS server that knows one name.
func (b *box) provider(network, leaseTime string, options ...string) *neighbour {
	b.t.Helper()
	n := b.newNeighbour("wan")
	n.run("ip addr add " + network + ".1/24 dev eth0")
	n.serve(fmt.Sprintf("exec dnsmasq -k -C /dev/null --pid-file=%[2]s/pid --user=root --interface=eth0 --bind-interfaces --no-resolv --no-hosts "+
		"--dhcp-range=%[1]s.50,%[1]s.60,%[3]s --dhcp-leasefile=%[2]s/leases --dhcp-authoritative --address=/www.example.net/198.18.0.80 --address=/rebind.example.org/192.168.77.30 --no-ping %[4]s", network, n.dir, leaseTime, strings.Join(options, " ")))
	eventually(b.t, "the provider's server", func() bool { _, err := os.Stat(filepath.Join(n.dir, "pid")); return err == nil })
	return n
}

const homeText = `version: 1
system: {hostname: attic}
interfaces:
  wan: {dhcp: on, zone: wan}
  lan: {addresses: [192.168.77.1/24, "2001:db8:77::1/64"], zone: lan}
firewall:
  policies:
    - {from: lan, to: wan, default: permit}
nat:
  - {from: lan, to: wan, masquerade: true}
services:
  dhcp:
    lan:
      pool: 192.168.77.100-192.168.77.199
      search: [home.arpa, corp.example]
      boot: {server: 192.168.77.20, file: pxe/boot.0}
      static:
        printer: {mac: "52:54:00:00:00:99", address: 192.168.77.20}
  router-advertisements:
    lan: {prefixes: ["2001:db8:77::/64"]}
  dns:
    interfaces: [lan]
    domain: home.arpa
    names: {nas: 192.168.77.30}
  ntp:
    servers: [198.51.100.1]
    interfaces: [lan]
`

// address is the IPv4 address of a port of the box, "" for none.
func (b *box) address(port string) string {
	b.t.Helper()
	link, err := b.links.LinkByName(port)
	if err != nil {
		b.t.Fatal(err)
	}
	list, err := b.links.AddrList(link, netlink.FAMILY_V4)
	if err != nil || len(list) == 0 {
		return ""
	}
	return list[0].IPNet.String()
}

// defaultRoute says whether the box has a default route through a gateway.
func (b *box) defaultRoute(gateway string) bool {
	b.t.Helper()
	list, err := b.links.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range list {
		if r.Gw.String() == gateway && (r.Dst == nil || r.Dst.IP.IsUnspecified()) {
			return true
		}
	}
	return false
}

// A home router from end to end: an address from the provider, one for the computer at
// home, names, time, and a connection through it all. Then the daemon goes away and
// comes back, the lease is kept, and only what was asked for is open.
func TestHomeRouter(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if err := os.Chmod(b.root, 0o755); err != nil { // as /run/minne is: dnsmasq does not stay root
		t.Fatal(err)
	}
	isp := b.provider("198.51.100", "2m")
	home := b.newNeighbour("lan")
	b.start()
	file := b.file("home.yaml", homeText)
	b.want(0, "applied", "apply", file)
	eventually(t, "the lease", func() bool {
		return strings.HasPrefix(b.address("wan"), "198.51.100.") && b.defaultRoute("198.51.100.1")
	})
	b.wantWhole(1)
	b.want(0, "nothing to change", "apply", file)
	b.want(0, "has 198.51.100.", "show", "dhcp")
	b.want(0, "DNS server 198.51.100.1", "show", "dhcp")
	b.want(0, "DHCP client on wan", "show", "services")
	eventually(t, "the fast path has the route", func() bool {
		return strings.Contains(b.minne("show", "ip", "route").out, "0.0.0.0/0 [210/")
	})

	b.want(0, "198.51.100.1", "explain", "--in", "lan", "--src", "192.168.77.50", "--dst", "203.0.113.9", "--proto", "tcp", "--dport", "443")

	// A computer comes home: its own DHCP client puts down what it is told.
	home.write("event", `#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr add $ip/$mask dev $interface
ip route add default via $router
echo "$ip $router $dns $ntpsrv $domain" >told
echo "$search, $siaddr $boot_file" >options
`)
	home.run("chmod +x event && udhcpc -q -n -f -i eth0 -t 10 -T 1 -x hostname:laptop -O ntpsrv -O search -s $PWD/event")
	if got := strings.TrimSpace(home.run("cat options")); got != "home.arpa corp.example, 192.168.77.20 pxe/boot.0" {
		t.Errorf("the computer was told %q of search list and network boot", got)
	}
	told := strings.Fields(home.run("cat told"))
	if len(told) != 5 || told[1] != "192.168.77.1" || told[2] != "192.168.77.1" || told[3] != "192.168.77.1" || told[4] != "home.arpa" {
		t.Errorf("the computer was told %q", told)
	}
	if a, err := netip.ParseAddr(told[0]); err != nil || a.Less(netip.MustParseAddr("192.168.77.100")) || netip.MustParseAddr("192.168.77.199").Less(a) {
		t.Errorf("address %s, %v", told[0], err)
	}
	b.want(0, "laptop", "show", "dhcp")
	for name, want := range map[string]string{"www.example.net": "198.18.0.80", "nas.home.arpa": "192.168.77.30", "printer.home.arpa": "192.168.77.20", "laptop.home.arpa": told[0]} {
		if got := home.resolve("192.168.77.1", name+"."); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := home.resolve("192.168.77.1", "rebind.example.org."); got == "192.168.77.30" { // a page of the Internet reaching in
		t.Errorf("rebind.example.org is %s", got)
	}
	eventually(t, "the time", func() bool { return home.time("192.168.77.1") })
	home.run("ping -c 1 -W 5 198.51.100.1")
	eventually(t, "an address by router advertisement", func() bool {
		return strings.Contains(home.run("ip -6 addr show dev eth0"), "2001:db8:77:")
	})

	// Without a daemon all goes on; a new one finds the lease held and changes nothing.
	before := b.address("wan")
	b.end(syscall.SIGKILL)
	home.run("ping -c 1 -W 5 198.51.100.1")
	started := strings.Count(b.log.String(), "service started")
	b.start()
	if got := b.address("wan"); got != before || !b.defaultRoute("198.51.100.1") {
		t.Errorf("address %q after a new start, was %q", got, before)
	}
	b.want(0, "nothing to change", "apply", file)
	if now := strings.Count(b.log.String(), "service started"); now != started || started != 3 {
		t.Errorf("%d services were started, then %d anew:\n%s", started, now-started, &b.log)
	}
	b.openToTheWAN(isp, strings.Split(before, "/")[0])
}

// openToTheWAN scans the router from the provider's side: no port may answer, not even to say that it is closed.
func (b *box) openToTheWAN(isp *neighbour, address string) {
	b.t.Helper()
	out := isp.run("nmap -n -Pn -sS -p- --min-rate 20000 --max-retries 1 --host-timeout 50s " + address)
	if !strings.Contains(out, "All 65535 scanned ports") || !strings.Contains(out, "filtered") || strings.Contains(out, "/tcp") {
		b.t.Errorf("TCP on the WAN:\n%s", out)
	}
	out = isp.run("nmap -n -Pn -sU -p 22,53,67,68,123,161,323,500,546,547,1900,5353,5355 --max-retries 1 --host-timeout 50s " + address)
	if !strings.Contains(out, "open|filtered") || strings.Contains(out, " open ") || strings.Contains(out, " closed ") {
		b.t.Errorf("UDP on the WAN:\n%s", out)
	}
}
