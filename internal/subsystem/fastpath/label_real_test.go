// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"minne/internal/base/pcap"
	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath/flow"
)

// Real captures lie in ../shared/data beside the repository. Where they don't, packets of a few protocols are made.
const sharedCaptures = "../../../../shared/data/pcap"

// What real traffic begins with, as the router and as Go write it; the sets have the names in order.
var protocols = []struct{ set, minne, text string }{
	{"dhcp", `/^[\x01\x02]\x01\x06.{233}\x63\x82\x53\x63/s`, `(?s)^[\x01\x02]\x01\x06.{233}\x63\x{82}\x53\x63`},
	{"dns", `/^..[\x01\x81][\x00\x20\x80]\x00\x01/s`, `(?s)^..[\x01\x{81}][\x00\x20\x{80}]\x00\x01`},
	{"ftp", `/^220[ -][^\r\n]*ftp/i`, `(?i)^220[ -][^\r\n]*ftp`},
	{"http", `/^(GET|POST|HEAD) [^ ]+ HTTP\/1\.[01]\r\n/`, `^(GET|POST|HEAD) [^ ]+ HTTP/1\.[01]\r\n`},
	{"page", `/<html|<!doctype html/i`, `(?i)<html|<!doctype html`},
	{"quic", `/^[\xc0-\xff]\x00\x00\x00\x01/`, `^[\x{c0}-\x{ff}]\x00\x00\x00\x01`},
	{"smb", `/^\x00...[\xff\xfe]SMB/s`, `(?s)^\x00...[\x{ff}\x{fe}]SMB`},
	{"ssh", `/^SSH-2\.0-/`, `^SSH-2\.0-`},
	{"tls", `/^\x16\x03[\x00-\x03]/`, `^\x16\x03[\x00-\x03]`},
}

// listener takes a direction's packets as the documentation says that the router does.
type listener struct {
	packets int
	over    bool
	next    uint32
	seen    []byte
	set     string
}

func (l *listener) hears(protocol uint8, seq uint32, payload []byte, packets, most int, find func([]byte) string) {
	if l.over || len(payload) == 0 {
		return
	}
	if protocol == packet.ProtoUDP {
		l.seen = nil
	} else if l.packets > 0 {
		ahead := int32(seq - l.next)
		switch {
		case ahead > 0:
			l.packets++
			l.over = l.packets == packets
			return
		case int(-ahead) >= len(payload):
			return
		}
		payload, seq = payload[-ahead:], l.next
	}
	l.next = seq + uint32(len(payload))
	l.seen = append(l.seen, payload[:min(most, len(payload))]...)
	l.set = find(l.seen)
	l.packets++
	l.over = l.set != "" || l.packets == packets || protocol == packet.ProtoTCP && len(payload) > most
}

// spoken is what TCP and UDP say in a capture.
func spoken(t *testing.T, path string) (all []speech) {
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	must(t, pcap.Read(f, func(r pcap.Record) error {
		s := packet.Summarize(r.Frame)
		at, _, ok := packet.NetworkOffset(r.Frame)
		if !ok || s.Protocol != packet.ProtoTCP && s.Protocol != packet.ProtoUDP || s.SrcPort == 0 {
			return nil
		}
		header := packet.IPv4Len
		if s.Source.Is6() {
			header = packet.IPv6Len
		}
		upper := bytes.Clone(r.Frame[at+header : min(len(r.Frame), at+int(s.Length))]) // the reader uses its memory again
		one := speech{key: flow.Key{Source: s.Source, Destination: s.Destination, SourcePort: s.SrcPort, DestinationPort: s.DstPort, Protocol: s.Protocol}}
		if s.Protocol == packet.ProtoUDP && len(upper) >= 8 {
			one.payload = upper[8:]
		} else if s.Protocol == packet.ProtoTCP && len(upper) >= 20 && len(upper) >= int(upper[12]>>4)*4 {
			one.seq = uint32(upper[4])<<24 | uint32(upper[5])<<16 | uint32(upper[6])<<8 | uint32(upper[7])
			one.payload = upper[int(upper[12]>>4)*4:]
			if upper[13]&packet.SYN != 0 {
				one.flags = packet.SYN
			}
		}
		all = append(all, one)
		return nil
	}))
	return all
}

// made is what captures would say.
func made() (all []speech) {
	for i, text := range []string{"GET /index.html HTTP/1.1\r\nHost: example.org\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\x02\x00\x01", "220 ready, ftp here\r\n", "HTTP/1.1 200 OK\r\n\r\n<!DOCTYPE html>"} {
		all = append(all, speech{key: keyOf(packet.ProtoTCP, false, 40000+i), seq: 5, payload: []byte(text[:4])}, speech{key: keyOf(packet.ProtoTCP, false, 40000+i), seq: 9, payload: []byte(text[4:])})
	}
	return append(all, speech{key: keyOf(packet.ProtoUDP, false, 50000), payload: []byte("\xc3\x00\x00\x00\x01\x08")})
}

// TestLabelsOfRealTraffic holds the labels of flows of real captures against Go's regexp.
func TestLabelsOfRealTraffic(t *testing.T) {
	const packets, most = 6, 1500
	section := fmt.Sprintf("packets: %d, bytes: %d, sets: {", packets, most)
	var all []*regexp.Regexp
	for i, p := range protocols {
		if i > 0 {
			section += ", "
		}
		section += fmt.Sprintf("%s: {patterns: ['%s']}", p.set, p.minne)
		all = append(all, regexp.MustCompile(p.text))
	}
	find := func(text []byte) string {
		text = latin(text)
		end, set := len(text)+1, ""
		for i, e := range all { // where the first match ends: patterns here don't match longer than they have to
			if e.Longest(); e.Match(text) {
				first := shortest(e, text)
				if first < end {
					end, set = first, protocols[i].set
				}
			}
		}
		return set
	}
	b := newBench(t)
	b.useLabels(section + "}")
	b.awaitForwarding()
	captures, err := filepath.Glob(filepath.Join(sharedCaptures, "*.pcap"))
	must(t, err)
	said := map[string][]speech{"made": made()}
	for _, path := range captures {
		said[filepath.Base(path)] = spoken(t, path)
	}
	number, found := 0, map[string]int{}
	for name, speeches := range said {
		keys, heard := map[flow.Key]flow.Key{}, map[flow.Key]*listener{}
		for _, s := range speeches {
			k, ok := keys[s.key]
			if !ok { // each direction as a flow of its own, so that one does not label the other
				k = keyOf(s.key.Protocol, s.key.Source.Is6(), number)
				number++
				keys[s.key], heard[s.key] = k, &listener{}
			}
			at := s.seq
			if s.flags&packet.SYN != 0 {
				at++
			}
			if len(s.payload) > 1400 {
				s.payload = s.payload[:1400] // the MTU
			}
			b.pass(speech{key: k, seq: s.seq, flags: s.flags, payload: s.payload})
			heard[s.key].hears(s.key.Protocol, at, bytes.Clone(s.payload), packets, most, find)
		}
		for key, l := range heard {
			if got := b.label(keys[key]); got != l.set {
				t.Errorf("%s: %v: label %q, expected %q; it begins %.60q", name, key, got, l.set, l.seen)
			}
			found[l.set]++
		}
	}
	t.Logf("%d directions: %v", number, found)
	for _, set := range []string{"http", "ssh", "tls", "quic", "ftp", "page"} {
		if found[set] == 0 {
			t.Errorf("no flow was labelled %s: the test says nothing about it", set)
		}
	}
}

// shortest is where the first match of e ends that does.
func shortest(e *regexp.Regexp, text []byte) int {
	low, high := 1, len(text)
	for low < high {
		if middle := (low + high) / 2; e.Match(text[:middle]) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}
