// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"io"
	"os"
	"strings"
	"testing"

	"minne/internal/appliance/slot"
	"minne/internal/testing/testimage"
)

// put writes a system to a slot of a machine that is off, as a trial that passed would leave it.
func put(t *testing.T, disk, name, payload, version string) {
	t.Helper()
	content, err := os.ReadFile(payload)
	if err != nil {
		t.Fatal(err)
	}
	f, p := edit(t, disk), partitions(t, disk)["minne-"+name]
	was, err := slot.Read(io.NewSectionReader(open(t, disk), partitions(t, disk)["minne-a"].start, p.size), p.size)
	if err != nil {
		t.Fatal(err)
	}
	system := was.System
	system.Version = version
	if system, err = slot.Describe(system, open(t, payload)); err != nil {
		t.Fatal(err)
	}
	trailer, err := slot.Seal(system, nil)
	if err != nil {
		t.Fatal(err)
	}
	for at, b := range map[int64][]byte{p.start: content, p.start + p.size - slot.TrailerSize: trailer} {
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
}

// good makes a slot the good one.
func good(t *testing.T, disk, name string) {
	t.Helper()
	p := partitions(t, disk)["minne-state"]
	block, err := slot.State{Slot: name}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := edit(t, disk).WriteAt(block[:512], p.start+slot.StateOffset); err != nil {
		t.Fatal(err)
	}
}

// TestNeverWell has a good system that crashes at each start: after three of them the other one is used, and says why. When that
// one crashes as well, the router waits for help.
func TestNeverWell(t *testing.T) {
	u := serve(t)
	payload := sicken(t, u)
	disk := configured(t)
	put(t, disk, "b", payload, "crashes")
	good(t, disk, "b")
	m := testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
	for range 3 {
		m.Expect(`Minne: slot b`)
		m.Expect(`Kernel panic`)
	}
	m.Expect(`Minne: slot b did not get well in three starts, using the other one`)
	runs(m, "a")
	forwards(t, m)
	const why = "the system in slot b did not get well in three starts, so slot a is used"
	for _, command := range []string{"minne status", "minne show boot", "minne boot banner"} {
		said(t, m.Run(command), why)
	}
	said(t, m.Run("minne upgrade --status"), "* slot a  version "+u.was.Version, "slot b  version crashes", "can't, did not get well in three starts")
	if got, want := state(t, disk), (slot.State{Slot: "a", Failed: "b", Why: slot.NeverWell}); got != want {
		t.Errorf("boot state %+v, want %+v", got, want)
	}
	m.Run("until dd if=/dev/vda3 bs=512 skip=1 count=1 iflag=direct 2>/dev/null | grep -qx starts=; do sleep 5; done")
	m.Type("reboot\n")
	runs(m, "a")
	said(t, m.Run("minne status"), why)
	m.Off()

	put(t, disk, "a", payload, "crashes")
	m = testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
	for range 2 { // the first start was above, if that was not well before the plug was pulled
		m.Expect(`Minne: slot a`)
		m.Expect(`Kernel panic`)
	}
	m.Expect(`Minne: neither of the two systems gets well`)
	m.Expect(`Minne: slot a minne.help=1`)
	m.Expect(`neither of the two systems got well in three starts; this is the one in slot a\.`)
	signIn(m, m.Expect(`by SSH as admin at 192\.168\.77\.1\s+on port eth0, with the password ([a-z2-7]+)\.`)[1])
	said(t, m.Run("cat /proc/sys/net/ipv4/ip_forward; nft list set inet minne-boot management; ss -Hltn; minne show boot"),
		"0\n", "eth0", ":22 ", "slot a, to be helped")
	if out := m.Run("ps"); strings.Contains(out, "minne daemon") {
		t.Errorf("the daemon runs:\n%s", out)
	}
	// Whoever restarts it has it tried again.
	m.Type("reboot\n")
	m.Expect(`Minne: slot a`)
	m.Expect(`Kernel panic`)
}
