// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What a command may have left behind: namespaces, directories, processes, eBPF
// programs and pins, interfaces, and settings of ports.

// traces is what there is at one moment. The machine may have other labs, so only what can be this
// test's counts: programs that no process holds, children of this process, its own namespace.
type traces struct {
	programs []ebpf.ProgramID // of the whole machine
	pins     []string
	ports    []string // of this namespace, with their flags, addresses and programs
}

// instances is where every router instance has a directory for its pins.
const instances = "/sys/fs/bpf/minne-instances"

func look(t *testing.T) (s traces) {
	t.Helper()
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		id = next
		s.programs = append(s.programs, id)
	}
	filepath.WalkDir("/sys/fs/bpf", func(path string, _ fs.DirEntry, err error) error {
		if path != instances { // the empty directory that all instances share
			s.pins = append(s.pins, path)
		}
		return nil
	})
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		a := l.Attrs()
		program := uint32(0)
		if a.Xdp != nil {
			program = a.Xdp.ProgId
		}
		addresses, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			t.Fatal(err)
		}
		s.ports = append(s.ports, fmt.Sprintf("%s up=%v promiscuous=%v/%d program=%d %v", a.Name, a.RawFlags&unix.IFF_UP != 0, a.RawFlags&unix.IFF_PROMISC != 0, a.Promisc, program, addresses))
	}
	return s
}

// leftNothing sees that a process that has ended left nothing but what keep names in its directory.
func (p *process) leftNothing(t *testing.T, keep ...string) {
	t.Helper()
	run := fmt.Sprintf("%d-", p.cmd.Process.Pid)
	for _, pattern := range []string{"/run/netns/minne-" + run + "*", "/run/minne-lab/" + run + "*"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			t.Errorf("left behind: %v", found)
		}
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(keep, e.Name()) {
			t.Errorf("left behind: %s", e.Name())
		}
	}
	if left := orphans(t); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	now := look(t)
	if !slices.Equal(now.pins, p.before.pins) {
		t.Errorf("pins were %v, are %v", p.before.pins, now.pins)
	}
	if !slices.Equal(now.ports, p.before.ports) {
		t.Errorf("ports were\n%s\nare\n%s", strings.Join(p.before.ports, "\n"), strings.Join(now.ports, "\n"))
	}
	var left map[ebpf.ProgramID]string
	for range 100 { // the kernel frees programs a little later
		if left = forsaken(t, p.before.programs); len(left) == 0 {
			return
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 50e6}, nil)
	}
	t.Errorf("programs left in the kernel that no process holds: %v", slices.Collect(maps.Values(left)))
}

// names are those of the programs that the lab loads.
var names = []string{"generate", "replay", "sink", "pass", "send"}

// forsaken are the lab's programs that were not there before and that no process holds.
func forsaken(t *testing.T, before []ebpf.ProgramID) map[ebpf.ProgramID]string {
	t.Helper()
	out := map[ebpf.ProgramID]string{}
	for _, id := range look(t).programs {
		if slices.Contains(before, id) {
			continue
		}
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // it is gone by now
		}
		info, err := p.Info()
		p.Close()
		if err == nil && slices.Contains(names, info.Name) {
			out[id] = fmt.Sprintf("%s (%d)", info.Name, id)
		}
	}
	if len(out) == 0 {
		return nil
	}
	files, _ := filepath.Glob("/proc/[0-9]*/fdinfo/*")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if id, ok := strings.CutPrefix(line, "prog_id:"); ok {
				n, _ := strconv.Atoi(strings.TrimSpace(id))
				delete(out, ebpf.ProgramID(n))
			}
		}
	}
	return out
}

// orphans are the processes that minne started and did not end: they became children of this one (TestCommand).
func orphans(t *testing.T) (left []string) {
	t.Helper()
	children, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range children {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, pid := range strings.Fields(string(text)) {
			n, _ := strconv.Atoi(pid)
			var status unix.WaitStatus
			if ended, err := unix.Wait4(n, &status, unix.WNOHANG, nil); err != nil || ended == n {
				continue
			}
			line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			left = append(left, pid+" "+strings.ReplaceAll(string(line), "\x00", " "))
			syscall.Kill(n, syscall.SIGKILL)
		}
	}
	return left
}

// passing is a program that lets everything pass.
func passing(t *testing.T) *ebpf.Program {
	t.Helper()
	const pass = 2 // XDP_PASS
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, pass), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// firstCPU is a processor that this process may run on.
func firstCPU(t *testing.T) string {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			return strconv.Itoa(cpu)
		}
	}
	return "0"
}
