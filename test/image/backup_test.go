// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/testing/testimage"
)

// TestBackup moves a router to a PC with other network cards: the backup goes over the
// FAT partition, each interface is given a port, and the new PC forwards.
func TestBackup(t *testing.T) {
	const prepare = "echo 'correct horse battery' >/tmp/passphrase; mkdir -p /run/fat && mount -t vfat /dev/vda2 /run/fat"
	old := testimage.Copy(t)
	m := testimage.Boot(t, testimage.Options{Disk: old, Extra: []string{
		"-netdev", "hubport,id=a,hubid=1", "-device", "virtio-net-pci,netdev=a,mac=52:54:00:00:00:a1",
		"-netdev", "hubport,id=b,hubid=2", "-device", "virtio-net-pci,netdev=b,mac=52:54:00:00:00:a2"}})
	shell(m)
	configure(m, strings.NewReplacer(testimage.PortMAC(0), "52:54:00:00:00:a1", testimage.PortMAC(1), "52:54:00:00:00:a2").Replace(plain))
	m.Run(prepare)
	t.Log(m.Run("minne backup /run/fat/router.backup --passphrase-file /tmp/passphrase && umount /run/fat"))
	m.Off()
	file := filepath.Join(t.TempDir(), "router.backup")
	fat(t, old, "mcopy", "::router.backup", file)

	fresh := testimage.Copy(t)
	fat(t, fresh, "mcopy", file, "::router.backup")
	m = testimage.Boot(t, testimage.Options{Disk: fresh, Ports: 2, Card: "e1000e"})
	shell(m)
	m.Run(prepare)
	const restore = "minne restore /run/fat/router.backup --passphrase-file /tmp/passphrase --confirm 0"
	if out, code := m.Try(restore + " </dev/null"); code == "0" {
		t.Errorf("ports that this machine does not have are nobody's question:\n%s", out)
	}
	t.Log(m.Run(restore + " --map wan=" + testimage.PortMAC(0) + " --map lan=" + testimage.PortMAC(1)))
	forwards(t, m)
	m.Type("reboot\n")
	up(m)
	forwards(t, m)
}
