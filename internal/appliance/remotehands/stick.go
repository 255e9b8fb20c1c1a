// SPDX-License-Identifier: Apache-2.0

package remotehands

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/appliance/slot"
	"minne/internal/base/atomicfile"
)

// Label is the name of the FAT file system, as Windows and Linux show it.
const Label = "MINNE"

// Bounds of what is written to the stick.
const (
	MaxSize = 24 << 20 // bytes of a file: what can be mailed
	keep    = 3        // files of the same kind
)

// Find returns the device of the FAT partition: that of the router's own medium, else
// any that has the label.
func Find() (string, error) {
	if device, err := slot.Device(slot.PartESP); err == nil {
		return device, nil
	}
	devices, err := os.ReadDir("/sys/class/block")
	if err != nil {
		return "", err
	}
	for _, d := range devices {
		device := filepath.Join("/dev", d.Name())
		if labelled(device) {
			return device, nil
		}
	}
	return "", fmt.Errorf("there is no FAT partition with the label %s: plug in a stick with one (mkfs.vfat -n %s), or the router's own", Label, Label)
}

// labelled tells whether a device begins with a FAT file system of the label.
func labelled(device string) bool {
	f, err := os.Open(device)
	if err != nil {
		return false
	}
	defer f.Close()
	sector := make([]byte, 512)
	if _, err := io.ReadFull(f, sector); err != nil || sector[510] != 0x55 || sector[511] != 0xAA {
		return false
	}
	padded := fmt.Appendf(nil, "%-11s", Label)
	return bytes.HasPrefix(sector[82:], []byte("FAT32")) && bytes.Equal(sector[71:82], padded) ||
		bytes.HasPrefix(sector[54:], []byte("FAT1")) && bytes.Equal(sector[43:54], padded)
}

// Save writes a file to the FAT partition of a device and returns its name there.
// kind is what the names of its like begin with; older ones make room. The medium has
// it when Save returns, and is no longer mounted.
func Save(device, kind, suffix string, content []byte) (name string, err error) {
	dir, err := os.MkdirTemp("", "minne-stick-")
	if err != nil {
		return "", err
	}
	defer os.Remove(dir)
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount(device, dir, "vfat", flags, "umask=077"); err != nil {
		return "", fmt.Errorf("mount %s: %w", device, err)
	}
	name, err = saveIn(dir, kind, suffix, content)
	if e := unix.Unmount(dir, 0); e != nil {
		err = errors.Join(err, fmt.Errorf("unmount %s: %w", device, e))
	}
	return name, err
}

// saveIn is Save for a directory.
func saveIn(dir, kind, suffix string, content []byte) (string, error) {
	if len(content) > MaxSize {
		return "", fmt.Errorf("the file has %d MB, and %d MB are the limit", len(content)>>20, MaxSize>>20)
	}
	if err := tidy(dir, kind); err != nil {
		return "", err
	}
	var room unix.Statfs_t
	if err := unix.Statfs(dir, &room); err != nil {
		return "", err
	}
	if free := int64(room.Bavail) * int64(room.Bsize); free < int64(len(content)) {
		return "", fmt.Errorf("the stick has room for %d kB, the file needs %d kB: remove something from it", free>>10, len(content)>>10)
	}
	name := kind + "-" + suffix
	stem, ending, _ := strings.Cut(suffix, ".")
	for n := 2; ; n++ { // a router without a clock says the same time at each boot
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		name = fmt.Sprintf("%s-%s-%d.%s", kind, stem, n, ending)
	}
	if err := atomicfile.Write(filepath.Join(dir, name), content, 0o600, atomicfile.Durable); err != nil {
		return "", err
	}
	return name, syncDir(dir)
}

// tidy removes what a pulled stick left half-written, and the oldest files.
func tidy(dir, kind string) error {
	half, err := atomicfile.Leftovers(dir, kind+"-*")
	if err != nil {
		return err
	}
	for _, path := range half {
		_ = os.Remove(path)
	}
	files, err := filepath.Glob(filepath.Join(dir, kind+"-*"))
	if err != nil {
		return err
	}
	age := func(path string) int64 {
		if s, err := os.Stat(path); err == nil {
			return s.ModTime().UnixNano()
		}
		return 0
	}
	slices.SortFunc(files, func(a, b string) int {
		if x, y := age(a), age(b); x != y {
			return int(max(-1, min(1, x-y)))
		}
		return strings.Compare(a, b)
	})
	for len(files) >= keep {
		if err := os.Remove(files[0]); err != nil {
			return err
		}
		files = files[1:]
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
