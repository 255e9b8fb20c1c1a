// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"os/exec"
	"strings"
	"testing"

	"minne/internal/testing/testns"
)

// run runs a command in the namespace of the test.
func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

// TestSettings sets what virtual devices let be set, and reads it back: here and with ethtool(8).
func TestSettings(t *testing.T) {
	run(t, "ip", "link", "add", "left", "numrxqueues", "4", "numtxqueues", "4", "type", "veth", "peer", "name", "right", "numrxqueues", "4", "numtxqueues", "4")
	run(t, "ip", "tuntap", "add", "dev", "tap", "mode", "tap")
	tool, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	for _, c := range []struct {
		name string
		what Setting
		to   []int
		most int
		tool []string // of ethtool(8), and a line of what it says of the last
		says string
	}{
		{"left", Queues, []int{3, 1, 2}, 4, []string{"ethtool", "-l", "left"}, "RX:\t\t2\nTX:\t\t2\n"},
		{"tap", RxFrames, []int{64, 7}, 0, []string{"ethtool", "-c", "tap"}, "rx-frames: 7\n"},
		{"tap", Speed, []int{100, 1000}, 0, []string{"ethtool", "tap"}, "Speed: 1000Mb/s\n\tDuplex: Full\n\tAuto-negotiation: off\n"},
	} {
		for _, to := range c.to {
			if err := tool.Set(c.name, c.what, to); err != nil {
				t.Fatalf("%s of %s to %d: %v", c.what, c.name, to, err)
			}
			now, most, err := tool.Get(c.name, c.what)
			if err != nil || now != to || most != c.most {
				t.Errorf("%s of %s is %d of %d, %v; expected %d of %d", c.what, c.name, now, most, err, to, c.most)
			}
		}
		if out := run(t, c.tool...); !strings.Contains(out, c.says) {
			t.Errorf("%v says\n%s, expected %q", c.tool, out, c.says)
		}
	}
	if err := tool.Set("left", Queues, 5); err == nil {
		t.Error("more queues than there are")
	}
	for _, s := range []Setting{RxRing, FlowControl, EEE, UDPPorts} {
		if _, _, err := tool.Get("tap", s); err == nil || !Lacks(err) {
			t.Errorf("%s of a tap device: %v, expected that it has none", s, err)
		}
	}
	if d := tool.Driver("left"); d.Name != "veth" || d.Bus != "" {
		t.Errorf("driver %+v", d)
	}
	if on, err := tool.On("left", Offloads[3]); err != nil || !on {
		t.Errorf("TSO of a veth is %t, %v", on, err)
	}
	if err := tool.Turn("left", Offloads[3], false); err != nil {
		t.Error(err)
	}
	if on, err := tool.On("left", Offloads[3]); err != nil || on {
		t.Errorf("TSO of a veth is %t, %v after it was turned off", on, err)
	}
	if mbit, duplex := tool.Speed("tap"); mbit != 1000 || duplex != "full" {
		t.Errorf("speed %d, duplex %s", mbit, duplex)
	}
}

func TestMain(m *testing.M) { testns.Main(m) }
