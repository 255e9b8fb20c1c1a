// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"minne/internal/appliance/slot"
	"minne/internal/base/medium"
)

// mount is one file system of the running router. Sizes are in bytes or a share of
// the memory; a tmpfs takes only what is in it.
type mount struct {
	kind, target string
	flags        uintptr
	options      string
}

const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

var mounts = []mount{
	{"devpts", "/dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0620,gid=5,ptmxmode=0666"},
	{"tmpfs", "/dev/shm", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777,size=25%"},
	{"tmpfs", "/tmp", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777,size=25%"},
	{"tmpfs", "/var", quiet, "mode=0755,size=25%"},
	{"tmpfs", "/root", unix.MS_NOSUID | unix.MS_NODEV, "mode=0700,size=10%"},
	{"bpf", "/sys/fs/bpf", quiet, "mode=0700"},
	{"cgroup2", "/sys/fs/cgroup", quiet, ""},
	{"tracefs", "/sys/kernel/tracing", quiet, "mode=0700"},
}

// directories are made in memory at each boot: path, mode, owner. Those of routing
// daemons belong to FRR's user, under which they run. Services make their own.
var directories = []struct {
	path     string
	mode     fs.FileMode
	uid, gid int
}{
	{"/dev/pts", 0o755, 0, 0},
	{"/dev/shm", 0o1777, 0, 0},
	{"/run/minne", 0o755, 0, 0}, // programs of other users have directories in it
	{"/run/frr", 0o755, frrID, frrID},
	{"/run/lock", 0o755, 0, 0},
	{"/var/log", 0o755, 0, 0},
	{"/var/tmp", 0o1777, 0, 0},
	{"/var/lib", 0o755, 0, 0},
	{"/var/lib/frr", 0o755, frrID, frrID},
	{"/var/empty", 0o755, 0, 0},
}

// frrID is the user id in image/overlay/etc/passwd.
const frrID = 101

// fileSystems mounts what is in memory. /etc is a copy of the system's, since
// programs keep files there that change: resolv.conf, shadow, frr.
func fileSystems(context.Context, *Report) error {
	var failed []error
	for _, d := range directories[:2] {
		failed = append(failed, os.MkdirAll(d.path, d.mode))
	}
	for _, m := range mounts {
		if err := unix.Mount(m.kind, m.target, m.kind, m.flags, m.options); err != nil {
			failed = append(failed, fmt.Errorf("mount %s: %w", m.target, err))
		}
	}
	for _, d := range directories[2:] {
		failed = append(failed, os.MkdirAll(d.path, d.mode), os.Chmod(d.path, d.mode), os.Chown(d.path, d.uid, d.gid))
	}
	failed = append(failed, os.Symlink("/run", "/var/run"), writableEtc(), unix.Sethostname([]byte("minne")))
	return errors.Join(failed...)
}

// writableEtc puts a copy of /etc in memory in its place.
func writableEtc() error {
	const copied = "/run/etc"
	if err := os.MkdirAll(copied, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", copied, "tmpfs", quiet, "mode=0755,size=10%"); err != nil {
		return fmt.Errorf("mount a copy of /etc: %w", err)
	}
	if out, err := exec.Command("cp", "-a", "/etc/.", copied).CombinedOutput(); err != nil {
		return fmt.Errorf("copy /etc: %w: %s", err, out)
	}
	if err := unix.Mount(copied, "/etc", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("mount the copy of /etc: %w", err)
	}
	return os.Remove(copied)
}

// mountMedium mounts the partition of the configuration, read-only. When it can't
// be read, the router goes on with an empty one in memory, and says so.
func mountMedium(_ context.Context, r *Report) error {
	err := mountConfig()
	if err != nil {
		r.warn("the partition of the configuration can't be used, so this router has none: %v", err)
		if e := unix.Mount("tmpfs", medium.Mount, "tmpfs", quiet, "mode=0755,size=10%"); e != nil {
			return errors.Join(err, e)
		}
	}
	if e := makeConfigDirectories(); e != nil {
		return errors.Join(err, e)
	}
	return errors.Join(err, link("/etc/minne"), link("/var/lib/minne"))
}

// link makes path a name for the directory on the medium.
func link(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.Symlink(filepath.Join(medium.Mount, path), path)
}

// mountConfig mounts the partition of the configuration and notes what is on it.
func mountConfig() error {
	device, err := slot.Device(slot.PartConfig)
	if err == nil {
		err = mountExt4(device, medium.Mount)
	}
	if err != nil {
		return err
	}
	medium.Note()
	return nil
}

// mountExt4 tries, in this order: as it is (the kernel replays the journal of a
// file system that a power cut left), without its journal (a medium that can't be
// written), after a repair.
func mountExt4(device, target string) error {
	flags := uintptr(medium.Flags | unix.MS_RDONLY)
	const options = "errors=remount-ro"
	first := unix.Mount(device, target, "ext4", flags, options)
	if first == nil {
		return nil
	}
	if unix.Mount(device, target, "ext4", flags, options+",noload") == nil {
		return nil
	}
	out, err := exec.Command("e2fsck", "-y", device).CombinedOutput()
	if err := unix.Mount(device, target, "ext4", flags, options); err == nil {
		return nil
	}
	return fmt.Errorf("mount %s: %w; e2fsck: %v: %.200s", device, first, err, out)
}

// makeConfigDirectories makes the two directories where they are missing.
func makeConfigDirectories() error {
	for path, mode := range map[string]fs.FileMode{"/etc/minne": 0o755, "/var/lib/minne": 0o750} {
		path = filepath.Join(medium.Mount, path)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		done, err := medium.Writable(medium.Mount)
		if err != nil {
			return err
		}
		if err := errors.Join(os.MkdirAll(path, mode), done()); err != nil {
			return err
		}
	}
	return nil
}
