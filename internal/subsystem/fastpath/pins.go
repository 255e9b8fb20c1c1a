// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// bpffs is where Linux has its file system for pinned eBPF objects.
const bpffs = "/sys/fs/bpf"

// ensureDir makes the directory for pins, and mounts the bpffs it lies on if that is missing.
func ensureDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil && !strings.HasPrefix(dir, bpffs+"/") {
		return fmt.Errorf("directory for pinned eBPF objects: %w", err)
	}
	if onBPF(dir) {
		return nil
	}
	if !strings.HasPrefix(dir, bpffs+"/") {
		return fmt.Errorf("%s is not on a bpffs: mount one there (mount -t bpf bpf %s)", dir, dir)
	}
	if err := unix.Mount("bpf", bpffs, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return fmt.Errorf("mounting a bpffs at %s: %w", bpffs, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("directory for pinned eBPF objects: %w", err)
	}
	return nil
}

func onBPF(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && uint32(s.Type) == unix.BPF_FS_MAGIC
}

// loadCounting loads the program with the counters that an earlier daemon pinned, or pins new ones.
func loadCounting(dir string, s shape) (*program, error) {
	counters := map[string]*ebpf.Map{}
	for _, name := range counterMaps {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
		if err == nil {
			counters[name] = m
			defer m.Close() // the program has handles of its own
		}
	}
	p, err := load(s, counters)
	if errors.Is(err, ebpf.ErrMapIncompatible) { // of a version with other counters
		clear(counters)
		p, err = load(s, nil)
	}
	if err != nil {
		return nil, err
	}
	if len(counters) == 0 {
		for _, name := range counterMaps {
			err = errors.Join(err, removeIfThere(filepath.Join(dir, name)))
		}
	}
	if err := errors.Join(err, pinCounters(dir, p)); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// pinCounters pins the program's counters where they are not.
func pinCounters(dir string, p *program) error {
	for _, name := range counterMaps {
		m, path := p.maps[name], filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		handle, err := m.Clone() // a map remembers its first pin, and would not be pinned again
		if err == nil {
			err = handle.Pin(path)
			handle.Close()
		}
		if err != nil {
			return fmt.Errorf("pinning the counters at %s: %w", path, err)
		}
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// attachedGeneric is XDP_ATTACHED_SKB of include/uapi/linux/if_link.h.
const attachedGeneric = 2

// runsGeneric says whether a link's XDP program runs in generic mode.
func runsGeneric(ifindex int) (bool, error) {
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return false, fmt.Errorf("query the XDP mode of link %d: %w", ifindex, err)
	}
	x := l.Attrs().Xdp
	return x != nil && x.AttachMode == attachedGeneric, nil
}

// foreignProgram names the XDP program on a link.
func foreignProgram(name string) string {
	l, err := netlink.LinkByName(name)
	if err != nil || l.Attrs().Xdp == nil {
		return "(unknown)"
	}
	id := ebpf.ProgramID(l.Attrs().Xdp.ProgId)
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return fmt.Sprintf("number %d", id)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil || info.Name == "" {
		return fmt.Sprintf("number %d", id)
	}
	return fmt.Sprintf("%q (number %d)", info.Name, id)
}
