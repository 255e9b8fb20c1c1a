// SPDX-License-Identifier: Apache-2.0

// Package testimage boots the router's disk image in QEMU, by plain emulation, and
// works on its serial console as a person would.
//
// A machine has a copy of the image as its disk and unix sockets for all else:
// console, monitor, and one pair of sockets per network port, over which tests
// exchange Ethernet frames. Nothing listens on the network, and no privileges are
// needed.
package testimage

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience is how long a console may be silent about what is awaited: emulation on a
// busy machine takes minutes where hardware takes seconds.
const Patience = 5 * time.Minute

// Options say what a machine has.
type Options struct {
	Disk     string   // file of the disk; see Copy
	UEFI     bool     // OVMF, else SeaBIOS
	ReadOnly bool     // writes to the disk fail, as on a worn-out or locked medium
	USB      bool     // the disk is a USB stick, "stick" for the monitor; else virtio
	CPUs     int      // 0 for 1; with more, QEMU 7.2 loses a kernel now and then: see Boot
	Memory   int      // MB; 0 for 512
	Ports    int      // network ports with frames, virtio-net unless Card names another
	Card     string   // QEMU's name of the network cards
	Clock    string   // the machine's own clock at start, as "1970-01-01T00:00:00"; empty for the true time
	Watchdog bool     // an Intel 6300ESB
	Log      string   // file that keeps all writes to the disk, in their order; see Writes
	Extra    []string // further arguments of QEMU
}

// Machine is a PC that runs.
type Machine struct {
	t       *testing.T
	dir     string
	qemu    *exec.Cmd
	console net.Conn
	Ports   []*Port

	mu    sync.Mutex
	said  bytes.Buffer
	seen  int // up to where Expect has looked
	more  chan struct{}
	ended chan struct{} // closed when QEMU has ended; complaint may be read then

	complaint bytes.Buffer // what QEMU says itself
}

// Copy makes a disk of the image build/minne.img, which ./dev image makes; of build/minne-wifi.img for the set "wifi" (./dev
// image --with wifi).
func Copy(t *testing.T, sets ...string) string {
	t.Helper()
	top, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Join(append([]string{"minne"}, sets...), "-")
	disk := filepath.Join(t.TempDir(), "disk.img")
	out, err := exec.Command("cp", "--sparse=always", filepath.Join(top, "build", name+".img"), disk).CombinedOutput()
	if err != nil {
		t.Fatalf("%s\nmake the image first: ./dev image, with --with SET for %s", out, name)
	}
	return disk
}

// Boot starts a machine. It is ended with the test.
//
// A machine of several processors may panic in its second second with "Oops: int3" (2 of 250
// times with QEMU 7.2): Linux patches its instructions while it starts, and an emulated processor may meet
// the breakpoint of a patch when it has been taken away already. So one is what machines have that don't
// need more.
func Boot(t *testing.T, o Options) *Machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "minne-vm-") // short: a path of a unix socket has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{t: t, dir: dir, more: make(chan struct{}, 1), ended: make(chan struct{})}
	t.Cleanup(m.end)
	for i := range o.Ports {
		m.Ports = append(m.Ports, newPort(t, dir, i))
	}
	m.qemu = exec.Command("qemu-system-x86_64", m.arguments(o)...)
	m.qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	m.qemu.Stderr = &m.complaint
	if err := m.qemu.Start(); err != nil {
		t.Fatalf("start QEMU: %v", err)
	}
	go func() {
		_ = m.qemu.Wait()
		close(m.ended)
	}()
	m.console = m.dial("console")
	if m.console == nil {
		t.Fatalf("QEMU did not start: %s", m.complaint.String())
	}
	go m.listen()
	return m
}

func (m *Machine) arguments(o Options) []string {
	cpus, memory, card := max(o.CPUs, 1), o.Memory, o.Card
	if memory == 0 {
		memory = 512
	}
	if card == "" {
		card = "virtio-net-pci"
	}
	drive := []string{"-drive", "if=none,id=disk,format=raw,cache=unsafe,file=" + o.Disk}
	switch {
	case o.ReadOnly:
		drive[1] += ",readonly=on"
	case o.Log != "":
		drive = []string{
			"-blockdev", "driver=file,node-name=medium,cache.no-flush=on,filename=" + o.Disk,
			"-blockdev", "driver=file,node-name=log,cache.no-flush=on,filename=" + o.Log,
			"-blockdev", "driver=blklogwrites,node-name=disk,file=medium,log=log,log-sector-size=512",
		}
	}
	device := "virtio-blk-pci,drive=disk,bootindex=0"
	args := []string{
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", fmt.Sprint(cpus), "-m", fmt.Sprint(memory),
		"-nodefaults", "-vga", "std", "-display", "none",
		"-chardev", "socket,id=console,server=on,wait=on,path=" + m.path("console"), "-serial", "chardev:console",
		"-monitor", "unix:" + m.path("monitor") + ",server=on,wait=off",
	}
	args = append(args, drive...)
	if o.USB {
		args = append(args, "-device", "qemu-xhci")
		device = "usb-storage,id=stick,drive=disk,bootindex=0"
	}
	args = append(args, "-device", device)
	if o.UEFI {
		vars := filepath.Join(m.dir, "vars.fd")
		if text, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd"); err == nil {
			_ = os.WriteFile(vars, text, 0o600)
		}
		args = append(args, "-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
			"-drive", "if=pflash,unit=1,format=raw,file="+vars)
	}
	if o.Clock != "" {
		args = append(args, "-rtc", "base="+o.Clock)
	}
	if o.Watchdog {
		args = append(args, "-device", "i6300esb", "-action", "watchdog=reset")
	}
	for i, p := range m.Ports {
		args = append(args, "-netdev", p.netdev(i), "-device", fmt.Sprintf("%s,netdev=port%d,mac=%s", card, i, PortMAC(i)))
	}
	return append(args, o.Extra...)
}

func (m *Machine) path(name string) string { return filepath.Join(m.dir, name) }

// dial connects to a socket of QEMU's, nil when QEMU ends without making it.
func (m *Machine) dial(name string) net.Conn {
	for {
		c, err := net.Dial("unix", m.path(name))
		if err == nil {
			return c
		}
		select {
		case <-m.ended:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// listen keeps what the console says.
func (m *Machine) listen() {
	b := make([]byte, 4096)
	for {
		n, err := m.console.Read(b)
		m.mu.Lock()
		m.said.Write(b[:n])
		m.mu.Unlock()
		select {
		case m.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Said returns all that the console said so far.
func (m *Machine) Said() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.said.String()
}

// Expect waits until the console says something new that matches, and returns the
// match with its groups.
func (m *Machine) Expect(pattern string) []string {
	m.t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.After(Patience)
	for {
		m.mu.Lock()
		text := m.said.String()[m.seen:]
		if at := re.FindStringSubmatchIndex(text); at != nil {
			m.seen += at[1]
			m.mu.Unlock()
			return re.FindStringSubmatch(text)
		}
		m.mu.Unlock()
		select {
		case <-m.more:
		case <-m.ended:
			m.t.Fatalf("the machine ended before its console said %q: %s\n%s", pattern, m.complaint.String(), tail(m.Said()))
		case <-limit:
			m.t.Fatalf("the console did not say %q:\n%s", pattern, tail(m.Said()))
		}
	}
}

func tail(text string) string { return text[max(0, len(text)-6000):] }

// Type sends text to the console as it is.
func (m *Machine) Type(text string) {
	m.t.Helper()
	if _, err := io.WriteString(m.console, text); err != nil {
		m.t.Fatalf("console: %v", err)
	}
}

// Run runs a command line in the shell of the console and returns what it prints. A
// command that fails ends the test; see Try.
func (m *Machine) Run(command string) string {
	m.t.Helper()
	out, code := m.Try(command)
	if code != "0" {
		m.t.Fatalf("%s: exit code %s\n%s", command, code, out)
	}
	return out
}

// Try runs a command line in the shell of the console and returns what it prints and its exit code.
func (m *Machine) Try(command string) (out, code string) {
	m.t.Helper()
	// The marks are put together by the shell, so that the echo of the line is none.
	m.Type("echo @@''begin; " + command + "; echo @@''end $?\n")
	m.Expect(`@@begin\r?\n`)
	got := m.Expect(`(?s)(.*?)@@end (\d+)`)
	return strings.ReplaceAll(got[1], "\r", ""), got[2]
}

// Write puts a file on the machine.
func (m *Machine) Write(path, text string) {
	m.t.Helper()
	m.Run("cat >" + path + " <<'@@'\n" + text + "\n@@\ntrue")
}

// Monitor gives QEMU's monitor a command, such as "screendump file" or "system_reset".
func (m *Machine) Monitor(command string) {
	m.t.Helper()
	c := m.dial("monitor")
	if c == nil {
		m.t.Fatal("QEMU has ended")
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(Patience))
	read := func() {
		b, got := make([]byte, 512), ""
		for !strings.HasSuffix(got, "(qemu) ") {
			n, err := c.Read(b)
			if err != nil {
				m.t.Fatalf("monitor: %v", err)
			}
			got += string(b[:n])
		}
	}
	read()
	if _, err := io.WriteString(c, command+"\n"); err != nil {
		m.t.Fatalf("monitor: %v", err)
	}
	read()
}

// Screen writes a picture of the machine's screen to a PPM file.
func (m *Machine) Screen(file string) { m.t.Helper(); m.Monitor("screendump " + file) }

// Off pulls the plug.
func (m *Machine) Off() {
	_ = m.qemu.Process.Kill()
	<-m.ended
}

func (m *Machine) end() {
	if m.qemu != nil && m.qemu.Process != nil {
		m.Off()
	}
	if m.t.Failed() {
		m.t.Logf("console:\n%s", tail(m.Said()))
	}
	for _, p := range m.Ports {
		p.conn.Close()
	}
	os.RemoveAll(m.dir)
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
