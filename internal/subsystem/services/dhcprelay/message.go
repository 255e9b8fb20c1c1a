// SPDX-License-Identifier: Apache-2.0

package dhcprelay

import (
	"bytes"
	"net/netip"
	"slices"
)

// A message of DHCP: the fields of BOOTP, the magic cookie, options (RFC 2131, section 2).
const (
	opField     = 0
	typeField   = 1 // of hardware
	lengthField = 2 // of the hardware address
	hopsField   = 3
	flagsField  = 10
	ciField     = 12 // the host's address, when it has one
	yiField     = 16 // the host's address that it is given
	giField     = 24 // the relay's address
	chField     = 28 // the hardware address
	magicField  = 236
	optionField = 240

	request, answer = 1, 2
	ethernet        = 1
	broadcastFlag   = 0x80 // of the first byte of the flags

	optionPad, optionRelay, optionEnd = 0, 82, 255

	serverPort, clientPort = 67, 68

	leastLength = 300  // of what is sent (RFC 1542, section 2.1)
	mostRequest = 1200 // of what is taken from hosts: with option 82 it fits a link of 1500 bytes
	mostLength  = 1472 // of what is taken from servers: it fits one
	mostHops    = 4    // RFC 1542, section 4.1.1
)

var magic = []byte{99, 130, 83, 99}

// reason is why a message is dropped; "" for not.
type reason string

// The reasons.
const (
	notDHCP      reason = "not a DHCP message"
	tooLong      reason = "too long"
	damaged      reason = "damaged options"
	badHardware  reason = "no hardware address of a host"
	relayed      reason = "from another relay"
	tooManyHops  reason = "too many hops"
	hasOption    reason = "has option 82 already"
	tooMany      reason = "more than 500 a second"
	foreign      reason = "not from a server"
	notOurs      reason = "for another relay"
	wrongOption  reason = "with another's option 82"
	undelivered  reason = "could not be sent"
	failedServer reason = "no server could be reached"
)

// field reads an address.
func field(b []byte, at int) netip.Addr { return netip.AddrFrom4([4]byte(b[at:])) }

// span is where an option stands in a message.
type span struct{ from, to int }

// options finds option 82 in a message, each place of it, and the end. Options that go beyond the message,
// or have no end, are damaged.
func options(b []byte) (found []span, end int, ok bool) {
	for at := optionField; at < len(b); {
		switch b[at] {
		case optionPad:
			at++
			continue
		case optionEnd:
			return found, at, true
		}
		if at+1 >= len(b) || at+2+int(b[at+1]) > len(b) {
			return nil, 0, false
		}
		next := at + 2 + int(b[at+1])
		if b[at] == optionRelay {
			found = append(found, span{at, next})
		}
		at = next
	}
	return nil, 0, false
}

// isDHCP says what is wrong with a message for both directions.
func isDHCP(b []byte, op byte, most int) reason {
	switch {
	case len(b) > most:
		return tooLong
	case len(b) <= optionField || b[opField] != op || !bytes.Equal(b[magicField:optionField], magic):
		return notDHCP
	}
	return ""
}

// finished is a message that ends at end, with an option behind the others and padding.
func finished(b []byte, end int, option []byte) []byte {
	out := slices.Clone(b[:end])
	if option != nil { // as the last one (RFC 3046, section 2.1)
		out = append(append(out, optionRelay, byte(len(option))), option...)
	}
	out = append(out, optionEnd)
	for len(out) < leastLength {
		out = append(out, optionPad)
	}
	return out
}

// without is a message without some spans.
func without(b []byte, list []span) (out []byte, shorter int) {
	out = slices.Clone(b)
	for _, s := range slices.Backward(list) {
		out = slices.Delete(out, s.from, s.to)
		shorter += s.to - s.from
	}
	return out, shorter
}

// forServers is what a host asks, as the servers get it.
func (s *Settings) forServers(b []byte) ([]byte, reason) {
	if why := isDHCP(b, request, mostRequest); why != "" {
		return nil, why
	}
	switch {
	case b[typeField] == ethernet && (b[lengthField] != 6 || b[chField]&1 != 0 || [6]byte(b[chField:]) == [6]byte{}), b[lengthField] > 16:
		return nil, badHardware
	case !field(b, giField).IsUnspecified():
		return nil, relayed // or a host that pretends to be one: servers would answer somebody else
	case b[hopsField] >= mostHops:
		return nil, tooManyHops
	}
	found, end, ok := options(b)
	if !ok {
		return nil, damaged
	}
	out := slices.Clone(b)
	if s.Option != nil {
		switch {
		case len(found) == 0:
			out = finished(b, end, s.Option)
		case s.Existing == "drop": // RFC 3046, section 2.1: the host made it up
			return nil, hasOption
		case s.Existing == "replace":
			bare, shorter := without(b, found)
			out = finished(bare, end-shorter, s.Option)
		}
	}
	out[hopsField]++
	address := s.Address.As4()
	copy(out[giField:], address[:])
	return out, ""
}

// delivery is where an answer goes on the interface.
type delivery struct {
	mac     [6]byte
	address netip.Addr
}

var everybody = delivery{[6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, netip.AddrFrom4([4]byte{255, 255, 255, 255})}

// forHost is what a server answers, as the host gets it, and where that is (RFC 1542, section 4.1.2).
func (s *Settings) forHost(b []byte, from netip.Addr) (out []byte, to delivery, why reason) {
	if !slices.Contains(s.Servers, from) {
		return nil, to, foreign
	}
	if why := isDHCP(b, answer, mostLength); why != "" {
		return nil, to, why
	}
	if field(b, giField) != s.Address {
		return nil, to, notOurs
	}
	found, end, ok := options(b)
	if !ok {
		return nil, to, damaged
	}
	out = slices.Clone(b)
	if s.Option != nil && len(found) > 0 {
		switch ours := len(found) == 1 && bytes.Equal(b[found[0].from+2:found[0].to], s.Option); {
		case ours:
			bare, shorter := without(b, found)
			out = finished(bare, end-shorter, nil)
		case s.Existing != "keep": // which is a switch's, that wants it back
			return nil, to, wrongOption
		}
	}
	to = everybody
	if address := field(b, yiField); b[flagsField]&broadcastFlag == 0 && b[typeField] == ethernet && b[lengthField] == 6 && b[chField]&1 == 0 {
		if address.IsUnspecified() {
			address = field(b, ciField)
		}
		if !address.IsUnspecified() {
			to = delivery{[6]byte(b[chField:]), address}
		}
	}
	return out, to, ""
}
