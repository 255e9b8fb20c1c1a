// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"minne/internal/lab"
)

// echoes has a node answer each line on an address with the address of who sent it, until the test ends.
func echoes(t *testing.T, at *lab.Running, listen string) {
	t.Helper()
	var l net.Listener
	err := at.Do(func() (err error) { l, err = net.Listen("tcp", listen); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					if _, err := fmt.Fprintln(c, c.RemoteAddr().(*net.TCPAddr).IP); err != nil {
						return
					}
				}
			}()
		}
	}()
}

// asks sends a line on a connection and returns the answer.
func asks(c net.Conn, wait time.Duration) (string, error) {
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "who\n"); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

func dials(from *lab.Running, address string, wait time.Duration) (c net.Conn, err error) {
	err = from.Do(func() (err error) { c, err = net.DialTimeout("tcp", address, wait); return err })
	return c, err
}

// seen dials an address that echoes and returns by which address the caller is seen there.
func seen(from *lab.Running, address string) (string, error) {
	c, err := dials(from, address, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return asks(c, 5*time.Second)
}

// stream sends datagrams to an address, some 500 in a second, until the test ends, and counts those that arrive there.
func stream(t *testing.T, from, to *lab.Running, address string) *atomic.Int64 {
	t.Helper()
	at := netip.MustParseAddrPort(address)
	var in net.PacketConn
	if err := to.Do(func() (err error) { in, err = net.ListenPacket("udp", fmt.Sprintf(":%d", at.Port())); return err }); err != nil {
		t.Fatal(err)
	}
	var out net.Conn
	if err := from.Do(func() (err error) { out, err = net.Dial("udp", address); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); out.Close() })
	go func() {
		for {
			if _, err := out.Write([]byte("denied")); errors.Is(err, net.ErrClosed) { // others are the router's answers
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	arrived := new(atomic.Int64)
	go func() {
		for b := make([]byte, 100); ; arrived.Add(1) {
			if _, _, err := in.ReadFrom(b); err != nil {
				return
			}
		}
	}()
	return arrived
}

const vrfConfig = `
version: 1
system: {admin: {ssh-keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DMROe4n8DRQ2eWrsuoqFhVoUyYGIPRB pat@laptop]}}
interfaces:
  mgmt: {vrf: {table: 100, interfaces: [oob]}}
  red: {vrf: {table: 200, interfaces: [visitors, line]}}
  blue: {vrf: {table: 201, interfaces: [visitors2, line2]}}
  oob: {addresses: [198.51.100.2/24], zone: office}
  visitors: {addresses: [10.9.0.1/24, "2001:db8:9::1/64"], zone: guests, anti-spoof: strict}
  line: {addresses: [203.0.113.2/30, "2001:db8:113::2/64"], zone: uplink}
  visitors2: {addresses: [10.9.0.1/24], zone: guests, anti-spoof: strict}
  line2: {addresses: [203.0.113.2/30], zone: uplink}
  lan: {addresses: [192.0.2.1/24], zone: office}
routing:
  static:
    - {prefix: 0.0.0.0/0, via: [203.0.113.1], vrf: red}
    - {prefix: "::/0", via: ["2001:db8:113::1"], vrf: red}
    - {prefix: 0.0.0.0/0, via: [203.0.113.1], vrf: blue}
firewall:
  policies:
    - {from: guests, to: uplink, rules: [GUESTS]}
    - {from: uplink, to: guests, rules: ["permit tcp any 10.9.0.10 8080"]}
nat:
  - {from: guests, to: uplink, masquerade: on}
  - {from: uplink, forward: {protocol: tcp, port: 80, address: 203.0.113.2, target: 10.9.0.10, target-port: 8080}}
services:
  ssh: {interfaces: [oob]}
`

// TestZonesInVRFs has guests with a line of their own in one VRF, and management in another, beside the main table: zones,
// masquerading, a forwarded port and SSH hold in them, and nobody gets from one into another.
func TestZonesInVRFs(t *testing.T) {
	indented := strings.ReplaceAll(strings.Replace(vrfConfig, "GUESTS", "permit tcp any any 80", 1), "\n", "\n      ")
	up := boots(t, "vrf.yaml", `
version: 1
nodes:
  admin: {runs: host, ports: {eth0: [198.51.100.9/24]}, gateway: [198.51.100.2]}
  guest: {runs: host, ports: {eth0: [10.9.0.10/24, "2001:db8:9::10/64"]}, gateway: [10.9.0.1, "2001:db8:9::1"]}
  isp: {runs: host, ports: {eth0: [203.0.113.1/30, "2001:db8:113::1/64"]}, gateway: ["2001:db8:113::2"], prepare: "ip address add 198.18.0.1/32 dev lo"}
  guest2: {runs: host, ports: {eth0: []}, prepare: "ip address add 10.9.0.10/24 dev eth0; ip route add default via 10.9.0.1"}
  isp2: {runs: host, ports: {eth0: []}, prepare: "ip address add 203.0.113.1/30 dev eth0; ip address add 198.18.0.2/32 dev lo"}
  staff: {runs: host, ports: {eth0: [192.0.2.10/24]}, gateway: [192.0.2.1]}
  router:
    runs: minne
    machine: qemu
    image: `+imageFile(t)+`
    config: |`+indented+`
links:
  - {ends: [admin.eth0, router.oob]}
  - {ends: [guest.eth0, router.visitors]}
  - {ends: [isp.eth0, router.line]}
  - {ends: [guest2.eth0, router.visitors2]}
  - {ends: [isp2.eth0, router.line2]}
  - {ends: [staff.eth0, router.lan]}
`, "minne status; nft list table inet minne_antispoof; minne show flows --by zone; ip route show table 200; nft -nn list table inet minne_policy; cat /proc/net/nf_conntrack")
	router := up.Node("router")
	onRouter := func(script string) string {
		t.Helper()
		out, err := router.Run(t.Context(), "sh", "-c", script)
		if err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
		return out
	}
	admin, guest, isp, staff := up.Node("admin"), up.Node("guest"), up.Node("isp"), up.Node("staff")
	guest2, isp2 := up.Node("guest2"), up.Node("isp2")
	echoes(t, isp, ":80")
	echoes(t, isp, ":81")
	echoes(t, guest, ":8080")
	echoes(t, isp2, ":80")
	echoes(t, guest2, ":8080")
	echoes(t, staff, ":80")
	echoes(t, admin, ":80")
	if err := lab.Until(t.Context(), time.Minute, "a guest reaches the Internet, masqueraded", func() error {
		as, err := seen(guest, "198.18.0.1:80")
		if err == nil && as != "203.0.113.2" {
			err = fmt.Errorf("seen as %s", as)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, address, as string
		from              *lab.Running
	}{
		{"IPv6, which is not masqueraded", "[2001:db8:113::1]:80", "2001:db8:9::10", guest},
		{"a forwarded port", "203.0.113.2:80", "203.0.113.1", isp},
		{"another VRF with the same addresses", "198.18.0.2:80", "203.0.113.2", guest2},
		{"a forwarded port of that", "203.0.113.2:80", "203.0.113.1", isp2},
	} {
		if as, err := seen(c.from, c.address); err != nil || as != c.as {
			t.Errorf("%s: seen as %q, expected %s: %v", c.what, as, c.as, err)
		}
	}
	if c, err := dials(admin, "198.51.100.2:22", 5*time.Second); err != nil {
		t.Errorf("SSH of the management: %v", err)
	} else if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, "SSH-2.0-") {
		t.Errorf("SSH of the management says %q: %v", line, err)
	}
	for _, c := range []struct {
		what, address string
		from          *lab.Running
	}{
		{"another port than permitted", "198.18.0.1:81", guest},
		{"the line of another VRF", "198.18.0.2:80", guest},
		{"the line of the first VRF", "198.18.0.1:80", guest2},
		{"the router's SSH in the guests' VRF", "10.9.0.1:22", guest},
		{"the router's SSH in the management's VRF", "198.51.100.2:22", guest},
		{"the office in the main table", "192.0.2.10:80", guest},
		{"the office in the management's VRF", "198.51.100.9:80", guest},
		{"guests from the office", "10.9.0.10:8080", staff},
		{"the management from the office, of the same zone", "198.51.100.9:80", staff},
		{"the office from the management, of the same zone", "192.0.2.10:80", admin},
		{"SSH of the main table", "192.0.2.1:22", staff},
		{"a port that is not forwarded", "203.0.113.2:22", isp},
	} {
		if conn, err := dials(c.from, c.address, 2*time.Second); err == nil {
			conn.Close()
			t.Errorf("%s is open: %s", c.what, c.address)
		}
	}

	// What would become of a packet, by the routes of its VRF.
	for words, wants := range map[string][]string{
		"visitors --src 10.9.0.10 --dst 198.18.0.1 --dport 80":            {"strict: accepts it", "forwards it by line via 203.0.113.1", "permit"},
		"visitors --src 10.9.0.10 --dst 198.18.0.1 --dport 81":            {"strict: 10.9.0.0/24 dev visitors", "0.0.0.0/0 via 203.0.113.1 dev line", "guests to uplink, the default, deny", "Dropped by the fast path (denied)"},
		"visitors --src 10.8.0.10 --dst 198.18.0.1 --dport 80":            {"source no strict: 0.0.0.0/0 via 203.0.113.1 dev line", "Dropped by the fast path (spoofed)"},
		"visitors --src 2001:db8:9::10 --dst 2001:db8:113::1 --dport 80":  {"strict: accepts it", "forwards it by line"},
		"visitors --src 2001:db8:113::1 --dst 2001:db8:113::1 --dport 80": {"strict: drops it"},
		"visitors2 --src 10.9.0.10 --dst 198.18.0.2 --dport 80":           {"strict: accepts it", "forwards it by line2 via 203.0.113.1", "permit"},
		"visitors --src 10.9.0.10 --dst 192.0.2.10 --dport 80":            {"strict: accepts it", "forwards it by line via 203.0.113.1"},
	} {
		out := strings.Join(strings.Fields(onRouter("minne explain --proto tcp --sport 4001 --in "+words)), " ")
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("explain --in %s: no %q in\n%s", words, want, out)
			}
		}
	}

	// Connections that look the same side by side.
	same := map[string]net.Conn{}
	for name, from := range map[string]*lab.Running{"red": guest, "blue": guest2} {
		err := from.Do(func() (err error) {
			d := net.Dialer{LocalAddr: &net.TCPAddr{Port: 4000}, Timeout: 5 * time.Second}
			same[name], err = d.Dial("tcp", "203.0.113.1:80")
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer same[name].Close()
	}
	for name, c := range same {
		if as, err := asks(c, 5*time.Second); err != nil || as != "203.0.113.2" {
			t.Errorf("%s, with the same addresses and ports as the other: seen as %q: %v", name, as, err)
		}
	}
	for name, c := range same {
		err := lab.Until(t.Context(), time.Minute, "the fast path carries the connection", func() error {
			for range 5 {
				if as, err := asks(c, 5*time.Second); err != nil || as != "203.0.113.2" {
					return fmt.Errorf("seen as %q: %w", as, err)
				}
			}
			if out := onRouter("minne show flows vrf " + name + " port 4000 fast-path"); !strings.Contains(out, " "+name) {
				return errors.New(out)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	// Whatever becomes of the daemon, the rules and the links, what is denied does not pass.
	denied := stream(t, guest, isp, "198.18.0.1:9999")
	for _, fault := range []string{
		"nft flush ruleset || true",
		"nft delete table inet minne_policy || true",
		"nft add chain inet minne_policy forward '{ policy accept; }' || true",
		"for p in $(pidof minne); do grep -q daemon /proc/$p/cmdline && kill -9 $p; done; true",
		"ip link set line nomaster",
		"ip link set visitors nomaster",
		"ip link delete red",
	} {
		onRouter(fault)
		if err := lab.Until(t.Context(), time.Minute, "a guest reaches the Internet after "+fault, func() error { _, err := seen(guest, "198.18.0.1:80"); return err }); err != nil {
			t.Error(err)
		}
		if n := denied.Load(); n != 0 {
			t.Fatalf("%s: %d denied packets have passed", fault, n)
		}
	}

	// Connections of a VRF show their zones, and end when the rules change.
	kept, err := dials(guest, "198.18.0.1:80", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if _, err := asks(kept, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if out := onRouter("minne show flows --by zone"); !strings.Contains(strings.Join(strings.Fields(out), " "), "guests uplink") {
		t.Errorf("connections by zones:\n%s", out)
	}
	for _, words := range []string{"flows vrf red", "flows --by host", "nat"} {
		if out := onRouter("minne show " + words); !strings.Contains(out, "VRF") || !strings.Contains(out, " red") || words == "nat" && !strings.Contains(out, " blue") {
			t.Errorf("show %s:\n%s", words, out)
		}
	}
	if out := onRouter("minne show flows vrf blue"); !strings.Contains(out, " blue") || strings.Contains(out, " red") {
		t.Errorf("show flows vrf blue:\n%s", out)
	}
	onRouter("cat >/tmp/changed.yaml <<'END'\n" + strings.Replace(vrfConfig, "GUESTS", "deny any any any", 1) + "END\nminne apply /tmp/changed.yaml")
	if _, err := asks(kept, 3*time.Second); err == nil {
		t.Error("a connection in a VRF goes on after its rule is gone")
	}
	if _, err := seen(guest, "198.18.0.1:80"); err == nil {
		t.Error("a new connection, too")
	}
	// And what a rule permits again passes again.
	onRouter("cat >/tmp/first.yaml <<'END'\n" + strings.Replace(vrfConfig, "GUESTS", "permit any any any", 1) + "END\nminne apply /tmp/first.yaml")
	if err := lab.Until(t.Context(), time.Minute, "the permit rule", func() error { _, err := seen(guest, "198.18.0.1:81"); return err }); err != nil {
		t.Error(err)
	}
	if err := lab.Until(t.Context(), time.Minute, "what was denied passes when it is permitted", func() error {
		if denied.Load() == 0 {
			return errors.New("nothing has arrived")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if out := onRouter("minne status"); strings.Contains(out, "degraded") {
		t.Errorf("status:\n%s", out)
	}
}
