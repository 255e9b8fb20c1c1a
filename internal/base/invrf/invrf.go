// SPDX-License-Identifier: Apache-2.0

// Package invrf starts programs that know nothing of VRFs inside of one, as `ip vrf exec` does: in a control group with a
// program that binds each socket that is made in it to the VRF's device. So a program's servers are found in the VRF alone,
// and what it sends takes the VRF's routes. The group and its program last as long as the processes in it, not
// as long as who made them.
//
// Two things differ from `ip vrf exec`:
//
//   - The hierarchy is mounted nowhere (fsmount(2)): it need not be at /sys/fs/cgroup, nor be writable there.
//   - Raw sockets of ICMPv6 are left unbound. Neighbour discovery, router solicitations with it, keeps the interface
//     that it came in by, and a socket of the VRF does not hear it (vrf_ip6_rcv). Who reads such a socket sees the
//     interface of each packet.
package invrf

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// parent is the group of all groups of this package, below the root of the hierarchy.
const parent = "minne"

// Fields of struct bpf_sock (linux/bpf.h), of 32 bits in the byte order of the host.
const (
	boundDevice = 0
	protocol    = 12
)

// Open makes the control group of a name, if there is none, binds what is started in it to a VRF of this network namespace, and
// returns it for the attribute CgroupFD of a new process. The caller closes it.
func Open(name, vrf string) (group *os.File, err error) {
	device, err := net.InterfaceByName(vrf)
	if err != nil {
		return nil, fmt.Errorf("VRF %s: %w", vrf, err)
	}
	root, err := hierarchy()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	at := filepath.Join(parent, name)
	for _, dir := range []string{parent, at} {
		if err := unix.Mkdirat(int(root.Fd()), dir, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("make the control group %s: %w", dir, err)
		}
	}
	fd, err := unix.Openat(int(root.Fd()), at, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the control group %s: %w", at, err)
	}
	group = os.NewFile(uintptr(fd), at)
	if err := bind(group, device.Index); err != nil {
		group.Close()
		return nil, fmt.Errorf("bind the programs in %s to VRF %s: %w", at, vrf, err)
	}
	return group, nil
}

// bind attaches the program in place of the one before.
func bind(group *os.File, device int) error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:       "minne_in_vrf",
		Type:       ebpf.CGroupSock,
		AttachType: ebpf.AttachCGroupInetSockCreate,
		License:    "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, protocol, asm.Word),
			asm.JEq.Imm(asm.R2, unix.IPPROTO_ICMPV6, "made"),
			asm.Mov.Imm(asm.R2, int32(device)),
			asm.StoreMem(asm.R1, boundDevice, asm.R2, asm.Word),
			asm.Mov.Imm(asm.R0, 1).WithSymbol("made"),
			asm.Return(),
		},
	})
	if err != nil {
		return err
	}
	defer p.Close()
	return link.RawAttachProgram(link.RawAttachProgramOptions{Target: int(group.Fd()), Program: p, Attach: ebpf.AttachCGroupInetSockCreate})
}

// Remove takes the control group of a name away. There may be none. One in which a process has not ended yet, as one that still
// answers somebody over TCP, stays and is used again.
func Remove(name string) error {
	root, err := hierarchy()
	if err != nil {
		return err
	}
	defer root.Close()
	err = unix.Unlinkat(int(root.Fd()), filepath.Join(parent, name), unix.AT_REMOVEDIR)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("remove the control group %s: %w", name, err)
	}
	return nil
}

// hierarchy is the root of the control groups (version 2) that this process may see.
func hierarchy() (*os.File, error) {
	const doing = "mount the hierarchy of control groups"
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	root, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return os.NewFile(uintptr(root), "cgroup2"), nil
}
