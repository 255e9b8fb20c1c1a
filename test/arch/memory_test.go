// SPDX-License-Identifier: Apache-2.0

//go:build arch

package arch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// most is how much memory Minne's daemon and FRR's zebra, bgpd and ospfd may use together, in KiB: what they share among
// themselves counted once (the sum of Pss, which on a machine that runs little else is what they really take).
const most = 64 << 10

const smallConfig = `version: 1
system: {hostname: router, router-id: 10.1.0.1, sysctl-profile: small}
interfaces:
  eth0: {addresses: [10.1.0.1/24]}
  eth1: {addresses: [10.2.0.1/24]}
routing:
  bgp:
    asn: 64501
    bogons: accept
    peers:
      right: {address: 10.2.0.2, asn: 64502}
  ospf:
    areas:
      0: {interfaces: {eth1: {network: point-to-point, hello: 5s, dead: 20s}}}
`

const neighbour = `log stderr all;
router id 10.2.0.2;
protocol device { }
protocol static announced { ipv4; %s }
protocol bgp minne {
  local as 64502;
  neighbor 10.2.0.1 as 64501;
  connect delay time 2;
  connect retry time 5;
  ipv4 { import none; export where source = RTS_STATIC; };
}
protocol ospf v2 inside {
  ipv4 { import none; export none; };
  area 0 {
    interface "eth0" { type ptp; hello 5; dead 20; };
    interface "lo" { stub yes; };
  };
}
`

// TestMemory runs the daemon and FRR on a machine of 128 MB with routes from BGP and OSPF.
func TestMemory(t *testing.T) {
	e := emulators[slices.IndexFunc(emulators, func(e emulator) bool { return e.debian == "amd64" })]
	kernel := kernelOf(t, e.debian)
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	root(t, disk, filepath.Join(kernel, "busybox"), e.minne(t, dir))
	image := filepath.Join(dir, "initramfs")
	initramfs(t, image, kernel, "", mountDisk, "exec chroot /root /usr/bin/env PATH=/run/minne-bin:/bin:/usr/bin", append(modules, "virtio_blk", "crc32c_generic", "crc32c-intel", "ext4"))
	m := start(t, e.boot(filepath.Join(kernel, "kernel"), image, 128, "-drive", "if=virtio,format=raw,readonly=on,file="+disk))

	var routes strings.Builder
	for i := range 9 {
		fmt.Fprintf(&routes, "route 198.51.100.%d/28 blackhole; ", 16*i)
	}
	if _, err := m.Node("right").RunBIRD(t.Context(), fmt.Appendf(nil, neighbour, routes.String())); err != nil {
		t.Fatal(err)
	}
	m.startDaemon(t)
	m.apply(t, smallConfig)
	m.until(t, "nine routes from BGP and one from OSPF", func() error {
		out, err := m.node.Run(t.Context(), "ip", "route")
		if bgp := strings.Count(out, "198.51.100."); err != nil || bgp != 9 || !strings.Contains(out, "203.0.113.7 via 10.2.0.2") {
			return fmt.Errorf("%d routes from BGP among\n%s%w", bgp, out, err)
		}
		return nil
	})
	t.Logf("\n%s%s", m.run(t, "free"), m.run(t, "sh", "-c", "minne show fast-path 2>&1 | head -n 6"))
	var resident, own int
	for _, name := range []string{"minne", "zebra", "bgpd", "ospfd", "staticd", "mgmtd", "watchfrr", "bfdd"} {
		rss, pss, found := m.memory(t, name)
		if !found {
			continue
		}
		t.Logf("%-8s RSS %6d KiB, Pss %6d KiB", name, rss, pss)
		resident, own = resident+rss, own+pss
	}
	t.Logf("together RSS %d KiB, Pss %d KiB; at most %d", resident, own, most)
	if own > most {
		t.Errorf("the daemons take %d KiB, more than %d", own, most)
	}
}

// memory returns how much a program has resident and how much of it it takes, shared pages divided by their users, in KiB. The
// agent of the lab is a minne too, and left out.
func (m machine) memory(t *testing.T, name string) (rss, pss int, found bool) {
	t.Helper()
	out := m.run(t, "sh", "-c", `for p in $(pidof `+name+`); do
	if [ "$(tr '\0' ' ' <"/proc/$p/cmdline" | cut -d ' ' -f 2)" != lab ]; then cat "/proc/$p/smaps_rollup"; fi
done`)
	for line := range strings.Lines(out) {
		var n int
		if _, err := fmt.Sscanf(line, "Rss: %d kB", &n); err == nil {
			rss, found = rss+n, true
		}
		if _, err := fmt.Sscanf(line, "Pss: %d kB", &n); err == nil {
			pss += n
		}
	}
	return rss, pss, found
}

// mountDisk puts the disk below /root, with memory where programs write.
const mountDisk = `mount -t ext4 -o ro /dev/vda /root
for d in proc sys dev run sys/fs/bpf; do mount -o bind /$d /root/$d; done
for d in etc/frr etc/minne var tmp; do mount -t tmpfs -o size=8m tmpfs /root/$d; done
mkdir -p /run/minne-bin /run/frr /root/var/lib/minne /root/var/tmp/frr /root/var/lib/frr /root/var/log/frr
ln -s /run /root/var/run
chown -R 100:100 /run/frr /root/etc/frr /root/var/tmp/frr /root/var/lib/frr /root/var/log/frr
chroot /root /bin/busybox --install -s /run/minne-bin
export LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/frr`

// root makes a file system with minne, busybox, and FRR with the libraries that it needs, from this host.
func root(t *testing.T, file, busybox, minne string) {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"bin", "dev", "proc", "sys", "run", "tmp", "var", "etc/frr", "etc/minne", "usr/bin", "usr/lib/frr", "usr/share"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0::/:/bin/sh\nfrr:x:100:100::/:/bin/false\n",
		"etc/group":  "root:x:0:\nfrr:x:100:\nfrrvty:x:101:frr\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	programs := []string{"/usr/bin/vtysh", "/usr/sbin/nft", "/usr/bin/env"}
	for _, d := range []string{"zebra", "bgpd", "ospfd", "staticd", "mgmtd", "watchfrr", "bfdd"} {
		if path := "/usr/lib/frr/" + d; exists(path) {
			programs = append(programs, path)
		}
	}
	files := slices.Clone(programs)
	for _, p := range programs {
		out, err := exec.Command("ldd", p).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", p, err)
		}
		for _, word := range strings.Fields(string(out)) {
			if strings.HasPrefix(word, "/") && !slices.Contains(files, word) {
				files = append(files, word)
			}
		}
	}
	for _, c := range [][]string{
		append(append([]string{"cp", "--parents", "--dereference"}, files...), dir),
		{"cp", "-r", "/usr/share/yang", filepath.Join(dir, "usr/share/")},
		{"cp", busybox, filepath.Join(dir, "bin/busybox")},
		{"cp", minne, filepath.Join(dir, "bin/minne")},
		{"ln", "-s", "busybox", filepath.Join(dir, "bin/sh")},
		{"mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", dir, file, "160M"},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(c, " "), err, out)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
