// SPDX-License-Identifier: Apache-2.0

//go:build arch

// Package arch boots Minne's binaries on the processors that a release is built for, each under QEMU with Debian's
// kernel for it and a file system in memory that holds nothing but minne and busybox. Between two hosts in
// namespaces, the machine has to forward by a static route, and the fast path to carry it wherever that kernel can.
// `./dev test-arch` runs it; nothing here says anything about speed.
package arch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/lab"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// emulator is a machine that QEMU can be.
type emulator struct {
	debian string // Debian's name of the architecture
	goarch string
	goarm  string
	qemu   []string // the program, the machine and its processor
	append string   // to the kernel's command line
	card   string   // model of the network cards
	serial string   // model of the bus of the agent's port
	// tooOld, when not "", is what the daemon's log says because the kernel is older than Minne's fast path wants: it alone forwards.
	tooOld string
	noIPv6 bool // the emulator can't do it
}

// offloads are what a virtio card must not leave to the tap, so that frames are what a cable would carry.
const offloads = ",csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off"

var emulators = []emulator{
	{debian: "amd64", goarch: "amd64", qemu: []string{"qemu-system-x86_64", "-M", "q35", "-cpu", "max", "-nodefaults"},
		append: "console=ttyS0", card: "virtio-net-pci", serial: "virtio-serial-pci"},
	{debian: "arm64", goarch: "arm64", qemu: []string{"qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a57", "-nodefaults"},
		append: "console=ttyAMA0", card: "virtio-net-pci", serial: "virtio-serial-pci"},
	{debian: "armhf", goarch: "arm", goarm: "7", qemu: []string{"qemu-system-arm", "-M", "virt,highmem=off", "-cpu", "cortex-a15", "-nodefaults"},
		append: "console=ttyAMA0", card: "virtio-net-pci", serial: "virtio-serial-pci"},
	// Release 12's kernel, 6.1, is the last one.
	{debian: "mipsel", goarch: "mipsle", qemu: []string{"qemu-system-mipsel", "-M", "malta", "-cpu", "24Kf", "-nodefaults"},
		tooOld: "the kernel's verifier refuses it", append: "console=ttyS0", card: "virtio-net-pci", serial: "virtio-serial-pci"},
	{debian: "ppc64el", goarch: "ppc64le", qemu: []string{"qemu-system-ppc64", "-M", "pseries,x-vof=on", "-cpu", "power9", "-nodefaults"},
		append: "console=hvc0", card: "virtio-net-pci", serial: "virtio-serial-pci"},
	{debian: "riscv64", goarch: "riscv64", qemu: []string{"qemu-system-riscv64", "-M", "virt", "-cpu", "rv64", "-nodefaults"},
		append: "console=ttyS0", card: "virtio-net-pci", serial: "virtio-serial-pci"},
	// No release is built for it: it stands for the byte order of mips, for which Debian has had no kernel since release 10.
	{debian: "s390x", goarch: "s390x", qemu: []string{"qemu-system-s390x", "-M", "s390-ccw-virtio", "-cpu", "max", "-nodefaults"},
		// QEMU 7.2 computes checksums wrong by the vector instructions that this kernel takes for it and that Go's programs can't do
		// without: the kernel refuses every ICMPv6 message, so nobody learns a neighbour.
		noIPv6: true,
		append: "console=ttysclp0", card: "virtio-net-ccw", serial: "virtio-serial-ccw"},
}

// kernelOf fetches Debian's kernel and busybox once and returns the directory.
func kernelOf(t *testing.T, debian string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "minne", "kernel-"+debian)
	if out, err := exec.Command("sh", "../../scripts/fetch-kernel.sh", debian, dir).CombinedOutput(); err != nil {
		t.Fatalf("fetch the kernel for %s from Debian's packages: %v\n%s", debian, err, out)
	}
	return dir
}

// minne compiles the command for the machine.
func (e emulator) minne(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "minne-"+e.debian)
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "minne/cmd/minne")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+e.goarch, "GOARM="+e.goarm)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build minne for %s: %v\n%s", e.goarch, err, out)
	}
	return path
}

const (
	bootTime  = 4 * time.Minute // a machine may need to boot
	agentPort = "minne.agent"
)

// boot is how the lab starts the machine: memory in MiB, more are arguments of QEMU's.
func (e emulator) boot(kernel, initramfs string, memory int, more ...string) lab.Boot {
	return func(ctx context.Context, n *lab.Running, taps []lab.Tap) (lab.Machine, error) {
		near, far, err := lab.AgentLine()
		if err != nil {
			return nil, err
		}
		defer far.Close()
		argv := slices.Clone(e.qemu)
		argv = append(argv, "-m", fmt.Sprint(memory), "-smp", "1", "-accel", "tcg", "-no-reboot", "-display", "none", "-serial", "stdio",
			"-kernel", kernel, "-initrd", initramfs, "-append", e.append+" panic=-1 quiet loglevel=4",
			"-device", e.serial, "-chardev", "socket,id=agent,fd=3", "-device", "virtserialport,chardev=agent,name="+agentPort)
		argv = append(argv, more...)
		for i, tap := range taps {
			id := fmt.Sprintf("n%d", i)
			argv = append(argv, "-netdev", fmt.Sprintf("tap,id=%s,ifname=%s,script=no,downscript=no", id, tap.Device),
				"-device", fmt.Sprintf("%s,netdev=%s,mac=02:00:00:00:00:%02x%s", e.card, id, i+1, e.offloads()))
		}
		p, err := n.StartMachine("qemu", argv, os.Environ(), []*os.File{far})
		if err != nil {
			near.Close()
			return nil, err
		}
		return lab.Answering(ctx, p, near, bootTime)
	}
}

func (e emulator) offloads() string {
	if strings.HasPrefix(e.card, "virtio") {
		return offloads
	}
	return ""
}
