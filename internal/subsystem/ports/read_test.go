// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
)

var errStuck = errors.New("stuck")

// What no veth shows.

func TestSpeed(t *testing.T) {
	for mbit, want := range map[uint32]uint64{0: 0, 10: 10e6, 2500: 2.5e9, 400_000: 400e9, 65535: 0, 1<<32 - 1: 0} {
		if got := speedOf(mbit); got != want {
			t.Errorf("%d Mbit/s: %d, expected %d", mbit, got, want)
		}
	}
}

func TestQueuesOfCombinedAndSeparateChannels(t *testing.T) {
	for _, c := range []struct {
		channels
		want Queues
	}{
		{channels{maxCombined: 8, nowCombinedRxTx: 4, maxOther: 1, nowOther: 1}, Queues{4, 4, 8, 8}},
		{channels{maxRx: 4, maxTx: 2, nowRx: 3, nowTx: 1}, Queues{3, 1, 4, 2}},
		{channels{}, Queues{}},
	} {
		if got := c.queues(); got != c.want {
			t.Errorf("%+v: %+v, expected %+v", c.channels, got, c.want)
		}
	}
}

func TestFeaturesOfADriver(t *testing.T) {
	reply := func(mask uint64) []byte {
		value := binary.NativeEndian.AppendUint64(nil, mask)
		b := append([]byte{commandDevGet, 1, 0, 0}, nl.NewRtAttr(attributeIfindex, nl.Uint32Attr(7)).Serialize()...)
		return append(b, nl.NewRtAttr(attributeXDP, value).Serialize()...)
	}
	for _, c := range []struct {
		reply []byte
		want  string
	}{
		{reply(0x7f), "native, redirect, transmit, zero copy"},
		{reply(3), "native, redirect"},
		{reply(0), "none: generic only"},
		{nil, "unknown (needs Linux 6.3 or later)"},
		{[]byte{1, 1, 0, 0}, "unknown (needs Linux 6.3 or later)"},
		{reply(0x7f)[:20], "unknown (needs Linux 6.3 or later)"},
	} {
		if got := readFeatures(c.reply).String(); got != c.want {
			t.Errorf("% x: %s, expected %s", c.reply, got, c.want)
		}
	}
}

func TestClientsOfTheSSHServer(t *testing.T) {
	const sample = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 010200C0:0016 090200C0:D431 01 00000000:00000000 00:00000000 00000000     0        0 2
   2: 010200C0:0016 090200C0:D432 01 00000000:00000000 00:00000000 00000000     0        0 3
   3: 010200C0:01BB 0A0200C0:D433 01 00000000:00000000 00:00000000 00000000     0        0 4
   4: 010200C0:D435 0B0200C0:0016 01 00000000:00000000 00:00000000 00000000     0        0 5
   5: 010200C0:0016 0C0200C0:D436 06 00000000:00000000 00:00000000 00000000     0        0 6
   6: B80D0120000000000000000001000000:0016 B80D0120000000000000000009000000:D437 01 0 0 0
   7: 0000000000000000FFFF0000010200C0:08AE 0000000000000000FFFF00000D0200C0:D438 01 0 0 0
   8: garbage:0016 more:here 01
`
	for _, c := range []struct {
		ports []uint16
		want  []string
	}{
		{[]uint16{22}, []string{"192.0.2.9", "2001:db8::9"}},
		{[]uint16{22, 2222}, []string{"192.0.2.9", "2001:db8::9", "192.0.2.13"}},
		{[]uint16{80}, nil},
	} {
		got, err := clients(strings.NewReader(sample), c.ports)
		var want []netip.Addr
		for _, text := range c.want {
			want = append(want, netip.MustParseAddr(text))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("ports %v: %v (%v), expected %v", c.ports, got, err, want)
		}
	}
}

func TestRemarks(t *testing.T) {
	card := Facts{
		Port:   Port{Name: "eth1", Driver: "r8169", Speed: 1e9},
		Queues: Queues{4, 4, 4, 4}, XDP: XDP{Known: true, Native: true, Redirect: true, Transmit: true},
	}
	if got := card.Remarks(); len(got) != 0 {
		t.Errorf("%q of a port without anything to remark", got)
	}
	for says, change := range map[string]func(*Facts){
		"runs no XDP programs":               func(f *Facts) { f.XDP = XDP{Known: true} },
		"does not transmit for XDP":          func(f *Facts) { f.XDP.Transmit = false },
		"speed is unknown":                   func(f *Facts) { f.Speed = 0 },
		"1 of 4 receive and 4 of 4 transmit": func(f *Facts) { f.Queues.Receive = 1 },
		"the addresses 192.0.2.1/24":         func(f *Facts) { f.Addresses = []string{"192.0.2.1/24"} },
	} {
		f := card
		change(&f)
		if got := f.Remarks(); len(got) != 1 || !strings.Contains(got[0], says) || !strings.Contains(got[0], "port eth1: ") {
			t.Errorf("%q, expected %q", got, says)
		}
	}
}

// The order of what is taken back is the reverse of what was done, and an error stops none of it.
func TestRestoreGoesOnAfterAnError(t *testing.T) {
	var done []string
	p := &Prepared{name: "eth1"}
	for _, what := range []string{"one", "two", "three"} {
		p.changed(what, func() error {
			done = append(done, what)
			if what == "two" {
				return errStuck
			}
			return nil
		})
	}
	err := p.Restore()
	if !slices.Equal(done, []string{"three", "two", "one"}) || err == nil || !strings.Contains(err.Error(), "restore port eth1: stuck") {
		t.Errorf("%v (%v)", done, err)
	}
}
