// SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/base/pcap"
	"minne/internal/lab/algo/lpm"
	"minne/internal/model/packet"
)

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoutesOfText(t *testing.T) {
	const text = "# a table\n10.0.0.0/8 192.0.2.1\n\n10.1.2.3/16 peer-b ; host bits are dropped\n2001:db8::/32 192.0.2.1\n198.51.100.7 peer-b\n203.0.113.0/24\n"
	for name, content := range map[string][]byte{"plain": []byte(text), "packed": packed(t, text)} {
		table, err := LoadRoutes(write(t, name, content))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]uint32{"10.0.0.0/8": 1, "10.1.0.0/16": 2, "2001:db8::/32": 1, "198.51.100.7/32": 2}
		for _, r := range append(table.IPv4, table.IPv6...) {
			if hop, ok := want[r.Prefix.String()]; ok && hop != r.NextHop {
				t.Errorf("%s: %v → %d, expected %d", name, r.Prefix, r.NextHop, hop)
			}
			if r.NextHop < 1 || r.NextHop > NextHops {
				t.Errorf("%s: %v → %d", name, r.Prefix, r.NextHop)
			}
		}
		if len(table.IPv4) != 4 || len(table.IPv6) != 1 {
			t.Errorf("%s: %d and %d routes, expected 4 and 1", name, len(table.IPv4), len(table.IPv6))
		}
	}
}

// TestBadLines: each bad line is named with its number and the reason.
func TestBadLines(t *testing.T) {
	file := write(t, "table", []byte("10.0.0.0/8 a\n10.0.0.0/33 a\nfe80::%eth0\n1.2.3.0/24 a b\nten\n::ffff:1.2.3.0/120\n"))
	_, err := LoadRoutes(file)
	var bad BadLines
	if !errors.As(err, &bad) || len(bad) != 5 {
		t.Fatalf("%v: expected five bad lines", err)
	}
	for i, want := range []string{":2: \"10.0.0.0/33\" is not a prefix", ":3: \"fe80::%eth0\" is neither", ":4: 3 words", ":5: \"ten\" is neither", ":6: ::ffff:1.2.3.0/120 is an IPv4 prefix written as IPv6"} {
		if !strings.Contains(bad[i].String(), want) {
			t.Errorf("%v: expected %q", bad[i], want)
		}
	}
	if _, err := LoadBlocklist(write(t, "list", []byte("192.0.2.1\n# nothing\nnobody\n"))); err == nil || !strings.Contains(err.Error(), "list:3: \"nobody\"") {
		t.Errorf("blocklist: %v", err)
	}
	many := write(t, "many", []byte(strings.Repeat("x\n", 25)))
	if _, err := LoadRoutes(many); err == nil || !strings.Contains(err.Error(), "and 15 more lines") {
		t.Errorf("25 bad lines: %v", err)
	}
	for _, load := range []func(string) error{
		func(f string) error { _, err := LoadRoutes(f); return err },
		func(f string) error { _, err := LoadBlocklist(f); return err },
		func(f string) error { _, _, err := LoadPatterns(f); return err },
		func(f string) error { _, err := LoadPayload(f); return err },
	} {
		if err := load(write(t, "empty", nil)); err == nil {
			t.Error("an empty file was taken")
		}
		if err := load(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a missing file: %v", err)
		}
	}
}

func TestPatternsOfAFile(t *testing.T) {
	patterns, refused, err := LoadPatterns(write(t, "rules", []byte("68656c6c6f\n/a(?=b)/\n/a.*b/i\nzz\n")))
	if err != nil || len(patterns) != 2 || len(refused) != 2 {
		t.Fatalf("%d patterns, refused %v, %v", len(patterns), refused, err)
	}
	if refused[0].Number != 2 || refused[1].Number != 4 || refused[0].Reason == "" {
		t.Errorf("%v", refused)
	}
}

func TestPayloadOfACapture(t *testing.T) {
	src, dst := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.2")
	frame := func(text string) []byte {
		udp := packet.UDP{SrcPort: 5, DstPort: 6}.Append(nil, src, dst, []byte(text))
		return packet.Ethernet{Type: packet.TypeIPv4}.Append(nil, packet.IPv4{TTL: 9, Protocol: packet.ProtoUDP, Src: src, Dst: dst}.Append(nil, udp))
	}
	short := append(frame("abc"), make([]byte, 15)...) // padded to the least length of Ethernet
	var b bytes.Buffer
	w, err := pcap.NewWriter(&b, "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range [][]byte{frame("hello, world"), short, {1, 2, 3}, frame("")} {
		if err := w.Write(pcap.Packet{Frame: f, Wire: len(f), Time: time.Unix(1, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(time.Unix(2, 0), 4, 0); err != nil {
		t.Fatal(err)
	}
	records, err := LoadPayload(write(t, "capture", b.Bytes()))
	if err != nil || len(records) != 2 || string(records[0]) != "hello, world" || string(records[1]) != "abc" {
		t.Errorf("%q, %v", records, err)
	}
}

// mrtOf is a record of an MRT dump.
func mrtOf(subtype uint16, body []byte) []byte {
	b := make([]byte, 12, 12+len(body))
	binary.BigEndian.PutUint32(b, 1_700_000_000)
	binary.BigEndian.PutUint16(b[4:], mrtTableDumpV2)
	binary.BigEndian.PutUint16(b[6:], subtype)
	binary.BigEndian.PutUint32(b[8:], uint32(len(body)))
	return append(b, body...)
}

// rib is a RIB entry with one path, whose attributes these are.
func rib(bits byte, prefix []byte, addPath bool, attributes []byte) []byte {
	b := append([]byte{0, 0, 0, 1, bits}, prefix...)
	b = append(b, 0, 1 /* entries */, 0, 3 /* peer */, 0, 0, 0, 9)
	if addPath {
		b = append(b, 0, 0, 0, 5)
	}
	return append(binary.BigEndian.AppendUint16(b, uint16(len(attributes))), attributes...)
}

func TestMRT(t *testing.T) {
	origin := []byte{0x40, 1, 1, 0}
	hop4 := append(bytes.Clone(origin), 0x40, 3, 4, 192, 0, 2, 1)
	hop6 := append([]byte{0x90, 14, 0, 17, 16}, netip.MustParseAddr("2001:db8::1").AsSlice()...)
	whole6 := append([]byte{0x80, 14, 20, 0, 2, 1, 16}, netip.MustParseAddr("2001:db8::1").AsSlice()...)
	dump := bytes.Join([][]byte{
		mrtOf(1, []byte("peers")),
		mrtOf(ribIPv4, rib(23, []byte{203, 0, 113}, false, hop4)),
		mrtOf(ribIPv4AddPath, rib(0, nil, true, hop4)),
		mrtOf(ribIPv4, rib(8, []byte{10}, false, origin)), // no next hop: the peer's
		mrtOf(ribIPv6, rib(32, []byte{0x20, 1, 0xd, 0xb8}, false, hop6)),
		mrtOf(ribIPv6AddPath, rib(29, []byte{0x20, 1, 0xd, 0xb8}, true, whole6)),
	}, nil)
	table, err := LoadRoutes(write(t, "rib", packed(t, string(dump))))
	if err != nil {
		t.Fatal(err)
	}
	prefix := netip.MustParsePrefix
	want4 := []lpm.Route{{Prefix: prefix("203.0.112.0/23"), NextHop: 1}, {Prefix: prefix("0.0.0.0/0"), NextHop: 1}, {Prefix: prefix("10.0.0.0/8"), NextHop: 2}}
	want6 := []lpm.Route{{Prefix: prefix("2001:db8::/32"), NextHop: 3}, {Prefix: prefix("2001:db8::/29"), NextHop: 3}}
	if len(table.IPv4) != 3 || len(table.IPv6) != 2 {
		t.Fatalf("%v", table)
	}
	for i, r := range append(table.IPv4, table.IPv6...) {
		if want := append(want4, want6...)[i]; r != want {
			t.Errorf("%v, expected %v", r, want)
		}
	}
	for cut := 13; cut < len(dump); cut++ { // whatever is cut off, it is named or the dump ends between records
		if _, err := LoadRoutes(write(t, "cut", dump[:cut])); err != nil && !strings.Contains(err.Error(), "cut:") && !strings.Contains(err.Error(), "without routes") {
			t.Fatalf("cut after %d bytes: %v", cut, err)
		}
	}
	if _, err := LoadRoutes(write(t, "bits", mrtOf(ribIPv4, rib(33, []byte{1, 2, 3, 4, 5}, false, nil)))); err == nil || !strings.Contains(err.Error(), "prefix of 33 bits") {
		t.Errorf("a prefix of 33 bits: %v", err)
	}
}
