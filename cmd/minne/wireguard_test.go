// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/services/wireguard"
	"minne/internal/testing/testns"
)

// newWireGuardKeys are the keys of one end.
func newWireGuardKeys(t *testing.T) (private, public string) {
	t.Helper()
	out, err := exec.Command("sh", "-c", `key=$(wg genkey); echo "$key"; echo "$key" | wg pubkey`).Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 2 {
		t.Fatalf("wg genkey: %v %q (package wireguard-tools)", err, out)
	}
	return words[0], words[1]
}

// wireGuardIn gives a neighbour WireGuard of its own, by wireguard-go and wg(8): the opposite side. Its sockets have the
// host's names, so the device's name is this process's alone.
func (n *neighbour) wireGuardIn(device, private, setting, address string) {
	n.t.Helper()
	n.t.Cleanup(func() { _ = os.Remove("/var/run/wireguard/" + device + ".sock") }) // which a program that is killed leaves
	n.serve("LOG_LEVEL=error exec wireguard-go -f " + device)
	eventually(n.t, "wireguard-go has its device", func() bool { return testns.WireGuardListens(device) == nil })
	n.write("key", private+"\n")
	n.run("wg set " + device + " private-key key " + setting + " && ip addr add " + address + " dev " + device + " && ip link set " + device + " up")
}

// Two sites are one by WireGuard: packets flow while peers change and while the daemon is killed, what another
// program changes is put back, and no key is printed anywhere. The host's kernel has no WireGuard, so the
// program wireguard-go stands in on both sides; the peer is configured by wg(8).
func TestWireGuard(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	lan, wan := b.newNeighbour("lan"), b.newNeighbour("wan")
	own, far := fmt.Sprintf("wga%d", os.Getpid()%1000000), fmt.Sprintf("wgb%d", os.Getpid()%1000000)
	private, public := newWireGuardKeys(t)
	farPrivate, farPublic := newWireGuardKeys(t)
	shared, _ := newWireGuardKeys(t)
	_, otherPublic := newWireGuardKeys(t)

	lan.run("ip addr add 192.0.2.9/24 dev eth0 && ip route add default via 192.0.2.1")
	wan.run("ip addr add 198.51.100.9/24 dev eth0 && ip addr add 10.20.0.1/24 dev lo")
	wan.write("psk", shared+"\n")
	wan.wireGuardIn(far, farPrivate, "peer "+public+" preshared-key psk endpoint 198.51.100.1:51820 persistent-keepalive 1 allowed-ips 10.9.0.0/24,192.0.2.0/24", "10.9.0.2/24")
	wan.run("ip route add 192.0.2.0/24 dev " + far)

	secrets := b.file("etc/minne/instances/"+b.name+"/secrets.yaml", "own: "+private+"\nshared: "+shared+"\n")
	if err := os.Chmod(secrets, 0o600); err != nil {
		t.Fatal(err)
	}
	text := func(peers string) string {
		return b.file("router.yaml", `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24], zone: lan}
  wan: {addresses: [198.51.100.1/24], zone: wan}
  `+own+`:
    addresses: [10.9.0.1/24]
    zone: vpn
    wireguard:
      private-key: own
      listen-port: 51820
      interfaces: [wan]
      peers:
        site: {public-key: "`+farPublic+`", preshared-key: shared, allowed: [10.9.0.2/32, 10.20.0.0/24]}
`+peers+`firewall:
  policies:
    - {from: lan, to: vpn, default: permit}
    - {from: vpn, to: lan, default: permit}
    - {from: wan, to: any, default: deny}
fast-path: {mode: generic}
`)
	}
	t.Cleanup(func() { // also when the test fails, or the program keeps the namespace
		if b.daemon != nil {
			b.end(syscall.SIGKILL)
		}
		if l, err := b.links.LinkByName(own); err == nil {
			_ = b.links.LinkDel(l)
		}
	})
	b.start()
	a := b.want(0, "WireGuard peer site of "+own, "apply", "--dry-run", text(""))
	a.out += b.want(0, "applied", "apply", text("")).out
	b.want(0, "nothing to change", "apply", text(""))

	seen := func() (p wireguard.Peer) {
		var o wireguard.Observed
		b.json(&o, "show", "wireguard", "--json")
		if len(o.Interfaces) == 1 && o.Interfaces[0].PublicKey == public {
			for _, p := range o.Interfaces[0].Peers {
				if p.Name == "site" {
					return p
				}
			}
		}
		return p
	}
	eventually(t, "a handshake", func() bool { return seen().State == "up" })
	lan.run("ping -q -c 3 -i 0.05 -W 5 10.20.0.1")
	if p := seen(); p.Endpoint == "" || !strings.HasPrefix(p.Endpoint, "198.51.100.9:") || p.Received == 0 || p.Sent == 0 || len(p.Allowed) != 2 {
		t.Errorf("%+v", p)
	}
	a.out += b.want(0, "site", "show", "wireguard").out
	var path fastpath.Observed
	b.json(&path, "show", "fast-path", "--json")
	said := ""
	for _, p := range path.Ports {
		if p.Name == own {
			said = p.Why
			if p.Received == 0 || p.Forwarded != 0 {
				t.Errorf("after pings, the kernel carries all of %s: %+v", own, p)
			}
		}
	}
	b.want(0, "The kernel needs", "show", "fast-path") // and what that costs
	if !strings.Contains(said, "no Ethernet") {
		t.Errorf("show fast-path says %q of %s", said, own)
	}

	// Another peer comes and goes, the daemon is killed and comes back: the first peer notices nothing.
	end := lan.flowing("10.20.0.1")
	before := seen().Handshake
	a.out += b.want(0, "applied", "apply", text(`        phone: {public-key: "`+otherPublic+`", allowed: [10.9.0.3/32]}`+"\n")).out
	b.want(0, "phone", "show", "wireguard")
	b.end(syscall.SIGKILL)
	b.start()
	a.out += b.want(0, "applied", "apply", text("")).out
	if p := seen(); p.State != "up" || before.IsZero() {
		t.Errorf("%+v", p)
	}
	end()

	// What others do is put back.
	b.inside("wg set " + own + " peer " + farPublic + " remove")
	b.inside("wg set " + own + " peer " + otherPublic + " allowed-ips 10.99.0.0/24 && wg set " + own + " fwmark 7")
	eventually(t, "the peer is there again, the stranger is not", func() bool {
		return b.has("wg show "+own+" peers", farPublic) && !b.has("wg show "+own+" peers", otherPublic) && b.has("wg show "+own+" fwmark", "off")
	})
	eventually(t, "packets flow again", func() bool {
		_, err := lan.try("ping -q -c 1 -W 1 10.20.0.1")
		return err == nil
	})
	// Without the firewall's opening no handshake would have been; other ports stay shut.
	if out, err := wan.try("ping -q -c 1 -W 1 192.0.2.9 -I eth0"); err == nil {
		t.Errorf("the WAN reaches the LAN beside the tunnel:\n%s", out)
	}

	// No key in what is shown, logged, stored or given to programs.
	for _, args := range [][]string{{"show", "config"}, {"show", "config", "--effective"}, {"show", "wireguard", "--json"}, {"show", "log"}, {"status"}} {
		a.out += b.minne(args...).out
	}
	a.out += b.log.String()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range lines {
		line, _ := os.ReadFile(file) // it may have ended
		a.out += string(line)
	}
	for _, key := range []string{private, shared} {
		if strings.Contains(a.out, key) {
			t.Error("a secret key was printed")
		}
	}

	// The program ends with the link; what it was goes with the configuration.
	b.want(0, "applied", "apply", b.config("without", "192.0.2.1/24", "198.51.100.1/24"))
	if _, err := b.links.LinkByName(own); err == nil {
		t.Errorf("%s is still there", own)
	} else if _, gone := err.(netlink.LinkNotFoundError); !gone {
		t.Error(err)
	}
	eventually(t, "wireguard-go ended", func() bool {
		_, err := os.Stat("/var/run/wireguard/" + own + ".sock")
		return os.IsNotExist(err)
	})
	b.want(0, "no WireGuard", "show", "wireguard")
}

// The commands make what both ends need: the router's key as a secret, the peer's file, the lines for the router, which are right.
func TestWireGuardPeer(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	dir := "etc/minne/instances/" + b.name + "/"
	public := func(a answer) string {
		_, key, _ := strings.Cut(a.out, "public key: ")
		return strings.TrimSpace(key)
	}
	key := public(b.want(0, "public key: ", "wireguard", "new-key", "vpn"))
	b.want(1, "already", "wireguard", "new-key", "vpn")
	b.want(2, "can't name a secret", "wireguard", "new-key", "a b")
	text := `version: 1
interfaces:
  wan: {addresses: [198.51.100.1/24]}
  vpn:
    addresses: [10.9.0.1/29, "2001:db8:9::1/64"]
    wireguard:
      private-key: vpn
      listen-port: 51820
      peers:
        laptop: {public-key: "HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=", allowed: [10.9.0.2/32]}
`
	b.file(dir+"minne.yaml", text)
	b.want(2, "--endpoint", "wireguard", "add-peer", "phone")
	b.want(1, "already", "wireguard", "add-peer", "laptop", "--endpoint", "vpn.example.net")
	conf := filepath.Join(b.root, "phone.conf")
	a := b.want(0, "▀", "wireguard", "add-peer", "phone", "--endpoint", "vpn.example.net", "--preshared", "--qr", "-o", conf)
	made, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := os.Stat(conf); err != nil || s.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", s.Mode(), err)
	}
	for _, want := range []string{"Address = 10.9.0.3/32, 2001:db8:9::2/128\n", "AllowedIPs = 0.0.0.0/0, ::/0\n", "Endpoint = vpn.example.net:51820\n", "PublicKey = " + key + "\n"} {
		if !strings.Contains(string(made), want) {
			t.Errorf("the peer's file lacks %q:\n%s", want, made)
		}
	}
	b.want(1, "already", "wireguard", "add-peer", "phone", "--endpoint", "vpn.example.net", "-o", conf)

	// The public key that the router gets is that of the private key in the file.
	private := between(t, string(made), "PrivateKey = ", "\n")
	wg := exec.Command("wg", "pubkey")
	wg.Stdin = strings.NewReader(private + "\n")
	out, err := wg.Output()
	if err != nil || between(t, a.out, `public-key: "`, `"`) != strings.TrimSpace(string(out)) {
		t.Errorf("%v: %s is not in:\n%s", err, out, a.out)
	}
	secrets, err := os.ReadFile(filepath.Join(b.root, dir, "secrets.yaml"))
	if err != nil || strings.Contains(string(secrets), private) || !strings.Contains(string(secrets), `vpn-phone: "`+between(t, string(made), "PresharedKey = ", "\n")+`"`) {
		t.Errorf("%v", err)
	}
	if strings.Contains(a.out, private) {
		t.Error("the private key is printed as text")
	}
	_, line, _ := strings.Cut(a.out, "        phone: ")
	b.file(dir+"minne.yaml", text+"        phone: "+line)
	b.want(0, "is valid", "check")

	// A key in the place of a secret's name is not repeated.
	wrong := b.want(3, "no secret of this name", "check", b.file("wrong.yaml", strings.Replace(text, "private-key: vpn", "private-key: "+private, 1)))
	if strings.Contains(wrong.out+wrong.err, private) {
		t.Errorf("the key is in the error:\n%s%s", wrong.out, wrong.err)
	}
}

// between is what stands between two texts.
func between(t *testing.T, text, before, after string) string {
	t.Helper()
	_, rest, ok1 := strings.Cut(text, before)
	found, _, ok2 := strings.Cut(rest, after)
	if !ok1 || !ok2 {
		t.Fatalf("no %q … %q in:\n%s", before, after, text)
	}
	return found
}
