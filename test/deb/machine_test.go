// SPDX-License-Identifier: Apache-2.0

//go:build debian_roots

// A machine with systemd as its first process, made of namespaces over a root of
// Debian: what a package meets where it is really used, but for the kernel.

package deb

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"
)

// rootPackages are in every root: what the package depends on, and a system to run it.
const rootPackages = "systemd-sysv,dbus,frr,nftables,iproute2,ethtool,kmod,passwd,procps,iputils-ping"

// root returns a directory with Debian of that name, which is fetched once per checkout.
func root(t *testing.T, suite string) string {
	t.Helper()
	kept, err := filepath.Abs("../../build/deb/root-" + suite + ".tar")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kept); err != nil {
		if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
			t.Fatal(err)
		}
		script := `mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' | sort -u | head -n 1)
			[ -n "$mirror" ]
			mmdebstrap --mode=root --variant=minbase --include="$1" --format=tar "$2" "$3.part" "$mirror" && mv "$3.part" "$3"`
		fetch := exec.Command("sh", "-euc", script, "sh", rootPackages, suite, kept)
		if out, err := fetch.CombinedOutput(); err != nil {
			t.Fatalf("make a root of Debian %s: %v\n%s", suite, err, out)
		}
	}
	dir := t.TempDir()
	run(t, "tar", "-C", dir, "-xf", kept)
	return dir
}

// boot makes the namespaces' mounts and becomes systemd. $1 is the root.
const boot = `
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t bpf bpf sys/fs/bpf
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
for n in null zero full random urandom tty; do touch dev/$n; mount --bind /dev/$n dev/$n; done
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
echo machine >etc/hostname
: >etc/machine-id
mkdir outside
pivot_root . outside
umount -l /outside
rmdir /outside
exec env -i container=minne PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/lib/systemd/systemd </dev/null >/dev/null 2>&1
`

// machine is a Debian that runs.
type machine struct {
	t    *testing.T
	root string // its files, seen from here
	pid  int    // of its systemd, seen from here
}

// start boots a machine over a root; it ends with the test.
func start(t *testing.T, suite string) *machine {
	t.Helper()
	m := &machine{t: t, root: root(t, suite)}
	outer := exec.Command("unshare", "--mount", "--net", "--pid", "--cgroup", "--ipc", "--uts", "--fork", "--kill-child", "sh", "-euc", boot, "sh", m.root)
	var said bytes.Buffer
	outer.Stdout, outer.Stderr = &said, &said
	outer.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	over := make(chan struct{})
	go func() { // the kernel ties Pdeathsig to this thread
		runtime.LockOSThread()
		started <- outer.Start()
		<-over
		_ = outer.Process.Kill() // and --kill-child takes systemd, with it all the rest
		_ = outer.Wait()
		started <- nil
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(over)
		<-started
	})
	m.await("a first process", func() bool {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", outer.Process.Pid))
		if err != nil || len(children) == 0 {
			return false
		}
		_, err = fmt.Sscan(string(children), &m.pid)
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", m.pid))
		return err == nil && strings.HasSuffix(exe, "/systemd")
	})
	m.await("a system that runs", func() bool {
		out, _ := m.command("systemctl is-system-running").Output()
		return strings.TrimSpace(string(out)) == "running"
	})
	return m
}

// await waits for what happens by itself.
func (m *machine) await(what string, happened func() bool) {
	m.t.Helper()
	for range 300 {
		if happened() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	m.t.Fatalf("%s: did not happen", what)
}

// command is a shell script inside the machine.
func (m *machine) command(script string) *exec.Cmd {
	return exec.Command("nsenter", "-t", fmt.Sprint(m.pid), "-m", "-n", "-p", "-C", "-i", "-u",
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "sh", "-euc", script)
}

// sh runs a script inside, which must succeed, and returns what it prints.
func (m *machine) sh(script string) string {
	m.t.Helper()
	out, err := m.command(script).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// put writes a file inside.
func (m *machine) put(path string, content []byte) {
	m.t.Helper()
	c := m.command("cat >" + path)
	c.Stdin = bytes.NewReader(content)
	if out, err := c.CombinedOutput(); err != nil {
		m.t.Fatalf("write %s: %v\n%s", path, err, out)
	}
}

// install installs a package.
func (m *machine) install(file string) {
	m.t.Helper()
	m.put("/tmp/minne.deb", read(m.t, file))
	m.sh("dpkg -i /tmp/minne.deb")
}

// files lists all that is on the machine's disk, without what a system writes by itself.
func (m *machine) files() string {
	m.t.Helper()
	return m.sh(`find / -xdev \( -path /var/lib/dpkg -o -path /var/log -o -path /var/cache -o -path /var/tmp -o -path /tmp -o -path /run -o -path /proc -o -path /sys -o -path /dev \
		-o -path /var/lib/systemd -o -path '/etc/*-' -o -name .pwd.lock \) -prune -o -print | sort`)
}

// neighbour is a host beside the machine, in a network namespace of its own.
type neighbour struct {
	t  *testing.T
	ns netns.NsHandle
}

// link connects a new neighbour to a port of the machine.
func (m *machine) link(port, address, gateway string) *neighbour {
	m.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err != nil {
		m.t.Fatal(err)
	}
	defer here.Close()
	n := &neighbour{t: m.t}
	if n.ns, err = netns.New(); err != nil { // enters it
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { n.ns.Close() })
	for _, line := range []string{
		fmt.Sprintf("ip link add eth0 type veth peer name %s netns %d", port, m.pid),
		// A veth passes on checksums not yet computed, as no cable does; GRO makes it take what XDP sends to it.
		"ethtool -K eth0 tx off gro on",
		"ip link set lo up",
		"ip link set eth0 up",
		"ip address add " + address + " dev eth0",
		"ip route add default via " + gateway,
	} {
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			m.t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if err := netns.Set(here); err != nil {
		m.t.Fatal(err)
	}
	return n
}

// within calls f with its thread inside the neighbour; sockets made there stay there.
func (n *neighbour) within(f func() error) {
	n.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err != nil {
		n.t.Fatal(err)
	}
	defer here.Close()
	if err := netns.Set(n.ns); err != nil {
		n.t.Fatal(err)
	}
	failed := f()
	if err := netns.Set(here); err != nil {
		n.t.Fatal(err)
	}
	if failed != nil {
		n.t.Fatal(failed)
	}
}
