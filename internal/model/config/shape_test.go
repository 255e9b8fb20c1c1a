// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// TestShapeRefused: what can't be shaped is refused at its line, with what to write instead.
func TestShapeRefused(t *testing.T) {
	for _, c := range []struct{ interfaces, says string }{
		{"wan: {shape: {}}", "down, up or both"},
		{"wan: {shape: {down: 1kbit}}", "64kbit to 1Tbit"},
		{"wan: {shape: {up: 1Mbit, overhead: pppoe-ptm}}", "pppoe-vdsl"},
		{"wan: {shape: {up: 1Mbit, overhead: 300}}", "-64 to 256"},
		{"wan: {shape: {up: 1Mbit, rtt: 20s}}", "1ms to 10s"},
		{"wan: {shape: {up: 1Mbit, diffserv: diffserv5}}", "diffserv4"},
		{"lo: {shape: {up: 1Mbit}}", "no line"},
		{"wan: {dummy: {}, shape: {up: 1Mbit}}", "no line"},
		{"br: {bridge: {ports: [wan]}}\n  wan: {shape: {up: 1Mbit}}", "shape at br"},
		{"red: {vrf: {table: 100, interfaces: [wan]}, shape: {up: 1Mbit}}\n  wan: {}", "no line"},
		{"wan: {shape: {up: 1Mbit}}\n  isp: {pppoe: {parent: wan, user: u, secret: s}, shape: {up: 1Mbit}}", "wait twice"},
	} {
		cfg, err := Parse("test.yaml", []byte("version: 1\ninterfaces:\n  "+c.interfaces+"\n"))
		if err == nil {
			err = Check(cfg, Secrets{})
		}
		if err == nil {
			t.Errorf("%s is taken", c.interfaces)
			continue
		}
		if text := err.Error(); !strings.Contains(text, c.says) || !strings.Contains(text, "^") {
			t.Errorf("%s: nothing of %q with a caret:\n%s", c.interfaces, c.says, text)
		}
	}
}

// TestLineOverhead: numbers are taken as words are, and a member of a VRF may be a line.
func TestLineOverhead(t *testing.T) {
	cfg, err := Parse("test.yaml", []byte("version: 1\ninterfaces:\n  wan: {shape: {up: 1Mbit, overhead: -4}}\n  dsl: {shape: {down: 9.5Mbit, overhead: pppoe-adsl}}\n  red: {vrf: {table: 100, interfaces: [dsl]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if added, least, atm, ptm := cfg.Interfaces["wan"].Shape.Overhead.Bytes(); added != -4 || least != 0 || atm || ptm {
		t.Errorf("%d %d %v %v", added, least, atm, ptm)
	}
	if added, _, atm, ptm := cfg.Interfaces["dsl"].Shape.Overhead.Bytes(); added != 40 || !atm || ptm {
		t.Errorf("%d %v %v", added, atm, ptm)
	}
}
