// SPDX-License-Identifier: Apache-2.0

package slot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The partitions of the medium, by their names in the GPT.
const (
	PartESP    = "minne-esp"    // FAT: GRUB, and files that people exchange with the router
	PartState  = "minne-state"  // the boot state, raw
	PartA      = "minne-a"      // slot a
	PartB      = "minne-b"      // slot b
	PartConfig = "minne-config" // ext4: configuration, secrets, revisions
)

// ErrNoMedium is wrapped by the error for a machine that did not boot from the router's image.
var ErrNoMedium = errors.New("this machine has no medium of the router's image")

// Partition returns the name in the GPT of a slot.
func Partition(slot string) string { return "minne-" + slot }

// Device returns the device file of a partition, on the disk that the machine
// booted from where the initramfs noted it (/run/minne-disk holds the disk's
// name, such as "sda"), else on any.
func Device(partition string) (string, error) {
	disk, err := os.ReadFile(diskFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return deviceIn(blockClass, strings.TrimSpace(string(disk)), partition)
}

// Devices returns the device files of the partitions of that name on all disks.
func Devices(partition string) ([]string, error) { return devicesIn(blockClass, "", partition) }

// Moved notes that the medium is now the disk that a device file is a partition of.
func Moved(device string) error {
	disk, err := DiskOf(device)
	if err != nil {
		return err
	}
	return os.WriteFile(diskFile, []byte(filepath.Base(disk)+"\n"), 0o644)
}

// DiskOf returns the device file of the disk that a device file is a partition of.
func DiskOf(device string) (string, error) {
	path, err := filepath.EvalSymlinks(filepath.Join(blockClass, filepath.Base(device)))
	if err != nil {
		return "", err
	}
	return "/dev/" + filepath.Base(filepath.Dir(path)), nil
}

const (
	blockClass = "/sys/class/block"
	diskFile   = "/run/minne-disk"
)

func deviceIn(class, disk, partition string) (string, error) {
	found, err := devicesIn(class, disk, partition)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("partition %s not found: %w", partition, ErrNoMedium)
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

func devicesIn(class, disk, partition string) (found []string, err error) {
	entries, err := os.ReadDir(class)
	if err != nil {
		return nil, fmt.Errorf("partition %s: %w", partition, err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(class, e.Name(), "uevent"))
		if err != nil {
			continue // went away while we looked
		}
		if disk != "" && !strings.HasPrefix(e.Name(), disk) {
			continue
		}
		if field(string(text), "PARTNAME") == partition {
			found = append(found, "/dev/"+e.Name())
		}
	}
	return found, nil
}

// field returns the value of KEY=value in a uevent file.
func field(uevent, key string) string {
	for line := range strings.Lines(uevent) {
		if v, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), key+"="); ok {
			return v
		}
	}
	return ""
}

// Booted returns the slot that this system was booted from, and whether that was
// a trial, from the kernel's command line.
func Booted() (name string, try bool, err error) {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return "", false, err
	}
	name, try = parseCommandLine(string(text))
	if name == "" {
		return "", false, fmt.Errorf("kernel command line has no minne.slot: %w", ErrNoMedium)
	}
	return name, try, nil
}

func parseCommandLine(text string) (name string, try bool) {
	for _, word := range strings.Fields(text) {
		switch word {
		case "minne.slot=a", "minne.slot=b":
			name = strings.TrimPrefix(word, "minne.slot=")
		case "minne.try=1":
			try = true
		}
	}
	return name, try
}
