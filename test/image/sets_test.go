// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"io"
	"testing"

	"minne/internal/appliance/slot"
	"minne/internal/testing/testimage"
)

// withSet is a disk whose slots both hold the base and the set "wifi".
func withSet(t *testing.T) string {
	t.Helper()
	disk := testimage.Copy(t, "wifi")
	twin(t, disk)
	return disk
}

// layerOf is where a layer lies in a slot.
func layerOf(t *testing.T, disk, name string) slot.Layer {
	t.Helper()
	p := partitions(t, disk)["minne-a"]
	trailer, err := slot.Read(io.NewSectionReader(open(t, disk), p.start, p.size), p.size)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range trailer.Layers {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("no layer %s in %+v", name, trailer.System)
	return slot.Layer{}
}

// TestSet boots the base with Wi-Fi laid over it, from memory and from the medium: programs run, modules and the
// countries' rules are taken, and views tell of the set.
func TestSet(t *testing.T) {
	for root, memory := range map[string]int{"memory": 512, "medium": 208} {
		t.Run(root, func(t *testing.T) {
			m := testimage.Boot(t, testimage.Options{Disk: withSet(t), Ports: 2, Memory: memory})
			shell(m)
			said(t, m.Run("minne show boot"), "slot a with wifi, running from "+root)
			said(t, m.Run("minne show version"), "sets", "wifi")
			said(t, m.Run("minne upgrade --status"), " with wifi, built")
			said(t, m.Run("cat /usr/share/minne/sets/wifi.json"), `"package": "hostapd", "version": "`, `"licences": ["BSD-3-clause`, `/usr/sbin/wpa_supplicant`)
			m.Run("test ! -w /usr/sbin && ! touch /usr/sbin/x")
			m.Run("modprobe mac80211_hwsim radios=2 && test -d /sys/class/ieee80211/phy1")
			said(t, m.Run("hostapd -v 2>&1; wpa_supplicant -v"), "hostapd v", "wpa_supplicant v")
			m.Run("iw reg set DE; until iw reg get | grep -q 'country DE'; do sleep 1; done")
			if root == "medium" {
				return // so little memory is too little for rules
			}
			configure(m, plain)
			forwards(t, m)
			m.Type("reboot\n")
			up(m)
			forwards(t, m)
		})
	}
}

// TestDamagedSet scratches a set: the other slot is used, and when it is damaged as well, the base without the set.
func TestDamagedSet(t *testing.T) {
	disk := withSet(t)
	wifi := layerOf(t, disk, "wifi")
	scratch(t, disk, "a", wifi.At+wifi.Bytes/2&^511)
	m := testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
	m.Expect(`Minne: slot b`)
	shell(m)
	said(t, m.Run("minne show boot"), "slot b with wifi")
	m.Off()
	if got := state(t, disk); got != (slot.State{Slot: "b", Failed: "a"}) {
		t.Errorf("boot state is %+v", got)
	}
	scratch(t, disk, "b", wifi.At+wifi.Bytes/2&^511)
	m = testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
	m.Expect(`set wifi is damaged: it is left out`)
	shell(m)
	said(t, m.Run("minne show boot"), "slot b, running from medium", "warning: set wifi is damaged")
	configure(m, plain)
	forwards(t, m)
}
