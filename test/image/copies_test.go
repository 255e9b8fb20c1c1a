// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"minne/internal/testing/testimage"
)

// beside is a second disk of a machine, as arguments of QEMU. The kernel finds it, /dev/vda, before the stick that the machine starts
// from.
func beside(disk string) []string {
	return []string{"-drive", "if=none,id=other,format=raw,cache=unsafe,file=" + disk, "-device", "virtio-blk-pci,drive=other"}
}

// TestCopies has two copies of one image in a machine: the one that it was started from is used, the first time and ever after, and
// the other one is not touched.
func TestCopies(t *testing.T) {
	one, two := testimage.Copy(t), testimage.Copy(t)
	begin := func(from, other string, uefi bool) *testimage.Machine {
		return testimage.Boot(t, testimage.Options{Disk: from, USB: true, UEFI: uefi, Ports: 2, Extra: beside(other)})
	}
	m := begin(one, two, false)
	shell(m)
	said(t, m.Run("cat /run/minne-disk; ls /dev/vda6"), "sda", "/dev/vda6")
	configure(m, strings.Replace(plain, "edge", "one", 1))
	m.Off()
	if out, err := exec.Command("cmp", two, imageFile(t)).CombinedOutput(); err != nil {
		t.Errorf("the copy beside was written to: %s", out)
	}
	m = begin(two, one, false)
	shell(m)
	configure(m, strings.Replace(plain, "edge", "two", 1))
	said(t, m.Run("cat /run/minne-disk"), "sda")
	m.Off()
	ids := map[string]bool{string(identifiers(t, imageFile(t))): true}
	for _, disk := range []string{one, two} {
		id := identifiers(t, disk)
		if ids[string(id)] {
			t.Errorf("%s has no identifier of its own: %x", disk, id)
		}
		ids[string(id)] = true
	}
	for _, c := range []struct {
		from, other, name string
		uefi              bool
	}{{one, two, "one", false}, {two, one, "two", true}} {
		m = begin(c.from, c.other, c.uefi)
		up(m)
		if got := strings.TrimSpace(m.Run("hostname")); got != c.name {
			t.Errorf("started from the disk of %s, it is %s", c.name, got)
		}
		if out := m.Run("dmesg | grep -i gpt; true"); out != "" {
			t.Errorf("the kernel does not like the partition table: %s", out)
		}
		m.Off()
	}
}

// identifiers are those in a disk's partition table: of the disk and of its first partition.
func identifiers(t *testing.T, disk string) []byte {
	t.Helper()
	f, b := open(t, disk), make([]byte, 3*512)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return bytes.Join([][]byte{b[512+56:][:16], b[1024+16:][:16]}, nil)
}
