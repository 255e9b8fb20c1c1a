// SPDX-License-Identifier: Apache-2.0

package drivers

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table is written by hand: what can be held against itself is.
func TestTable(t *testing.T) {
	version := regexp.MustCompile(`^[4-6]\.[0-9]{1,2}$`)
	names := make([]string, 0, len(all))
	for _, d := range all {
		names = append(names, d.Name)
		if d.Hardware == "" || d.Since != "" && !version.MatchString(d.Since) {
			t.Errorf("%s: hardware %q since %q", d.Name, d.Hardware, d.Since)
		}
		if !slices.Contains([]Transmit{Always, WithProgram, WithPeer, AsMembers, Never}, d.Transmit) ||
			!slices.Contains([]Tags{Kept, Switchable, Stripped, PerChip}, d.Tags) {
			t.Errorf("%s: %+v", d.Name, d)
		}
		if d.TagHint && d.Tags == Kept {
			t.Errorf("%s has a hint about tags that it never strips", d.Name)
		}
		if _, also := generic[d.Name]; also {
			t.Errorf("%s both has native XDP and has not", d.Name)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("not sorted, or a driver twice: %v", names)
	}
}

func TestUse(t *testing.T) {
	for name, want := range map[string]Use{
		"igb": Both, "igc": Both, "ixgbe": Both, "virtio_net": Both, "veth": Both, "mlx5_core": Both, "st_xgmac": Both,
		"mlx4_en": In, "nfp": In,
		"nicvf": None, "ixgbevf": None, "mana": None, "hv_netvsc": None, "qede": None, "cpsw": None,
	} {
		d, ok := Find(name)
		if !ok {
			t.Errorf("%s is missing", name)
			continue
		}
		use, why := d.Use()
		if use != want || (why == "") != (use == Both) {
			t.Errorf("%s: %s %q, expected %s", name, use, why, want)
		}
	}
	for _, name := range []string{"r8169", "e1000e", "", "st"} {
		if d, ok := Find(name); ok {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// A caller may change what it was given.
func TestCopies(t *testing.T) {
	All()[0].Name = "changed"
	Generic()["changed"] = ""
	if all[0].Name == "changed" || generic["changed"] != "" {
		t.Error("the table itself was given away")
	}
	for _, s := range Sources() {
		if s.Column == "" || !strings.Contains(s.From, Read) && !strings.Contains(s.From, "neither complete nor verified") {
			t.Errorf("%+v says neither when it was read nor that it was not verified", s)
		}
	}
}
