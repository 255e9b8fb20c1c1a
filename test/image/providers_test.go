// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/lab"
)

// segments connects from a node to an address of another, and returns the largest segment that the latter sends.
func segments(t *testing.T, from, to *lab.Running, listen, dial string) (mss uint32, err error) {
	t.Helper()
	var l net.Listener
	if err := to.Do(func() error { l, err = net.Listen("tcp", listen); return err }); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var c net.Conn
	if err := from.Do(func() error { c, err = net.DialTimeout("tcp", dial, 10*time.Second); return err }); err != nil {
		return 0, err
	}
	defer c.Close()
	accepted, err := l.Accept()
	if err != nil {
		return 0, err
	}
	defer accepted.Close()
	raw, err := accepted.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) {
		var info *unix.TCPInfo
		if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			mss = info.Snd_mss
		}
	})
	return mss, errors.Join(failed, err)
}

// TestProviders has the image dial a provider by PPPoE and take a prefix from another one by DHCPv6 (Kea): a host behind it
// reaches the first by IPv4, and makes itself an IPv6 address by which it reaches the second. The firewall has zones,
// masquerading, a forwarded port and MSS clamping over the session.
func TestProviders(t *testing.T) {
	tree, err := lab.UMLTree()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "../../scripts/fetch-uml.sh", tree).CombinedOutput(); err != nil {
		t.Fatalf("fetch User-Mode Linux from Debian's packages: %v\n%s", err, out)
	}
	up := boots(t, "providers.yaml", `
version: 1
nodes:
  home: {runs: host, ports: {eth0: [10.1.0.2/24]}, gateway: [10.1.0.1]}
  dsl:
    runs: kernel
    machine: uml
    ports: {line: [], core: [10.2.0.1/24]}
    prepare: |
      mkdir -p /etc/ppp
      echo '"line@isp" * "secret" *' >/etc/ppp/chap-secrets
      printf 'require-chap\nlcp-echo-interval 0\nnodefaultroute\n' >/etc/ppp/pppoe-server-options
      pppoe-server -I line -L 10.64.0.1 -R 10.64.0.100 -N 1
  behind: {runs: host, ports: {eth0: [10.2.0.2/24]}, gateway: [10.2.0.1]}
  cable: {runs: host, ports: {eth0: ["2001:db8:1::1/64"]}, prepare: "sysctl -qw net.ipv6.conf.all.forwarding=1; ip address add 2001:db8:53::53/128 dev lo"}
  router:
    runs: minne
    machine: qemu
    image: `+imageFile(t)+`
    secrets: |
      isp: secret
    config: |
      version: 1
      interfaces:
        lan: {addresses: [10.1.0.1/24], delegated-prefix: {from: wan6, subnet: 1}, zone: lan}
        wan: {zone: modem}
        isp: {pppoe: {parent: wan, user: line@isp, secret: isp}, zone: dsl}
        wan6: {dhcpv6: {prefix-length: 56}, zone: cable}
      firewall:
        mss-clamp: on
        policies:
          - {from: lan, to: any, default: permit}
          - {from: dsl, to: lan, rules: [permit tcp any 10.1.0.2 80]}
      nat:
        - {from: lan, to: dsl, masquerade: true}
        - {from: dsl, forward: {protocol: tcp, port: 8080, target: 10.1.0.2, target-port: 80}}
      services:
        router-advertisements: {lan: {}}
links:
  - {ends: [home.eth0, router.lan]}
  - {ends: [router.wan, dsl.line]}
  - {ends: [dsl.core, behind.eth0]}
  - {ends: [router.wan6, cable.eth0]}
`, "minne status; minne show pppoe; minne show ipv6 prefixes; cat /run/minne/services/dhcpv6-wan6/output /run/minne/services/pppoe-isp/output")
	cable := up.Node("cable")
	dir := t.TempDir()
	start := func(name string, argv ...string) {
		t.Helper()
		if _, err := cable.Start(name, argv...); err != nil {
			t.Fatal(err)
		}
	}
	start("advertisements", "dnsmasq", "-k", "-C", "/dev/null", "--pid-file="+dir+"/pid", "--user=root", "--port=0", "--interface=eth0", "--bind-interfaces",
		"--enable-ra", "--dhcp-range=2001:db8:1::,ra-only", "--ra-param=eth0,4,60", "--dhcp-leasefile="+dir+"/leases")
	start("kea", "sh", "-c", "cd "+dir+`; cat >kea.json <<'END'
{"Dhcp6": {
	"interfaces-config": {"interfaces": ["eth0"], "service-sockets-max-retries": 1000, "service-sockets-retry-wait-time": 100},
	"server-id": {"type": "LL", "identifier": "525400000001", "htype": 1, "persist": false},
	"lease-database": {"type": "memfile", "persist": false},
	"subnet6": [{"subnet": "2001:db8:1::/64", "interface": "eth0", "pools": [{"pool": "2001:db8:1::1000-2001:db8:1::1fff"}],
		"pd-pools": [{"prefix": "2001:db8:a000::", "prefix-len": 48, "delegated-len": 56}]}]}}
END
exec env KEA_PIDFILE_DIR=$PWD KEA_LOCKFILE_DIR=none KEA_LOGGER_DESTINATION=stdout kea-dhcp6 -c kea.json`)
	until := func(what string, ok func() error) {
		t.Helper()
		if err := lab.Until(t.Context(), 3*time.Minute, what, ok); err != nil {
			t.Fatal(err)
		}
	}
	pings := func(from, to string) func() error {
		return func() error {
			_, err := up.Node(from).Run(t.Context(), "ping", "-n", "-c", "1", "-W", "2", to)
			return err
		}
	}
	until("home reaches a host behind the PPPoE provider", pings("home", "10.2.0.2"))

	const fits = 1492 - 40 - 12 // the largest packet of the session, less IPv4, TCP and its timestamps
	if mss, err := segments(t, up.Node("home"), up.Node("behind"), "10.2.0.2:80", "10.2.0.2:80"); err != nil || mss != fits {
		t.Errorf("from home: segments of %d bytes, expected %d: %v", mss, fits, err)
	}
	if mss, err := segments(t, up.Node("behind"), up.Node("home"), "10.1.0.2:80", "10.64.0.100:8080"); err != nil || mss != fits {
		t.Errorf("by the forwarded port: segments of %d bytes, expected %d: %v", mss, fits, err)
	}
	for _, closed := range []string{"10.64.0.100:22", "10.64.0.100:53", "10.64.0.100:80"} {
		if _, err := segments(t, up.Node("behind"), up.Node("home"), "10.1.0.2:81", closed); err == nil {
			t.Errorf("%s is open to the Internet", closed)
		}
	}

	// The provider sends the prefix to the router.
	until("a prefix", func() error {
		out, err := up.Node("router").Run(t.Context(), "sh", "-c", "minne show ipv6 prefixes; ip -6 -o addr show dev wan6 scope link")
		if err != nil || !strings.Contains(out, "2001:db8:a000:") {
			return fmt.Errorf("%w: %s", err, out)
		}
		for _, w := range strings.Fields(out) {
			if a, ok := strings.CutSuffix(w, "/64"); ok && strings.HasPrefix(a, "fe80:") {
				_, err = cable.Run(t.Context(), "ip", "-6", "route", "replace", "2001:db8:a000::/48", "via", a, "dev", "eth0")
			}
		}
		return err
	})
	until("home reaches the DHCPv6 provider by an address of the prefix", pings("home", "2001:db8:53::53"))
}
