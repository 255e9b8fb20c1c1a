// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"minne/internal/model/packet"
	"minne/internal/testing/testimage"
)

// TestLLDP has the image's lldpd hear a switch, and the switch the router.
func TestLLDP(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: configured(t), Ports: 2})
	up(m)
	configure(m, plain+"services: {lldp: {interfaces: [lan]}}\n")
	// IEEE 802.1AB 8.5: chassis (7, locally assigned) and port (7), time to live, system name, end.
	frame := packet.Ethernet{Dst: packet.MAC{0x01, 0x80, 0xc2, 0, 0, 0x0e}, Src: packet.MAC(hostMAC(1)), Type: typeLLDP}.Append(nil, bytes.Join([][]byte{
		tlv(1, "\x07rack-9"), tlv(2, "\x07port-17"), tlv(3, "\x00\x78"), tlv(5, "switch-of-the-test"), tlv(0, ""),
	}, nil))
	frame = append(frame, make([]byte, 60-min(60, len(frame)))...)
	heard, limit := false, time.Now().Add(testimage.Patience)
	for said := ""; !heard || !bytes.Contains([]byte(said), []byte("switch-of-the-test")); said = m.Run("minne show lldp neighbors") {
		if time.Now().After(limit) {
			t.Fatalf("the switch heard the router: %v; the router heard:\n%s\n%s", heard, said, m.Run("logread | tail -30"))
		}
		if err := m.Ports[1].Send(frame); err != nil {
			t.Fatal(err)
		}
		for got := m.Ports[1].Receive(time.Second); got != nil; got = m.Ports[1].Receive(time.Millisecond) {
			heard = heard || binary.BigEndian.Uint16(got[12:]) == typeLLDP && bytes.Contains(got, tlv(5, "edge")) && bytes.Contains(got, []byte("lan"))
		}
	}
	said(t, m.Run("minne show version"), "lldpd")
	t.Log(m.Run("minne show lldp neighbors"))
}

const typeLLDP = 0x88cc

// tlv is an element of an LLDP frame: 7 bits of type, 9 of length.
func tlv(kind byte, value string) []byte {
	return append([]byte{kind << 1, byte(len(value))}, value...)
}
