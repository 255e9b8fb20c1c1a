// SPDX-License-Identifier: Apache-2.0

package dhcprelay

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"minne/internal/model/config"
	"minne/internal/testing/servicetest"
)

var (
	relayAddress = netip.MustParseAddr("192.0.2.1")
	server       = netip.MustParseAddr("198.51.100.9")
	hostMAC      = []byte{0x52, 0x54, 0, 0, 0, 7}
	ours         = []byte("\x01\x03lan\x02\x05attic")
)

func settings(existing string) Settings {
	return Settings{Address: relayAddress, Servers: []netip.Addr{server}, Option: ours, Existing: existing}
}

// dhcp is a message of an Ethernet host, with options and their end.
func dhcp(op byte, options ...byte) []byte {
	b := make([]byte, optionField)
	b[opField], b[typeField], b[lengthField] = op, ethernet, 6
	copy(b[chField:], hostMAC)
	copy(b[magicField:], magic)
	return append(append(b, options...), optionEnd)
}

// with is a copy in which bytes are others.
func with(b []byte, at int, bytes ...byte) []byte {
	b = slices.Clone(b)
	copy(b[at:], bytes)
	return b
}

func option82(content []byte) []byte {
	return append([]byte{optionRelay, byte(len(content))}, content...)
}

var (
	discover = []byte{53, 1, 1, 0, 0, 12, 2, 'p', 'c'} // with padding between the options
	theirs   = []byte("\x01\x04else")
)

func TestRequests(t *testing.T) {
	plain := dhcp(request, discover...)
	marked := dhcp(request, slices.Concat(discover[:3], option82(theirs), discover[3:])...)
	off := settings("")
	off.Option = nil
	for _, c := range []struct {
		what     string
		settings Settings
		message  []byte
		options  []byte // of what is passed on
		why      reason
	}{
		{"with the option", settings("drop"), plain, slices.Concat(discover, option82(ours)), ""},
		{"without", off, plain, discover, ""},
		{"another's stays where none is added", off, marked, marked[optionField : len(marked)-1], ""},
		{"another's", settings("drop"), marked, nil, hasOption},
		{"another's is replaced", settings("replace"), marked, slices.Concat(discover, option82(ours)), ""},
		{"two of another's", settings("replace"), dhcp(request, slices.Concat(option82(theirs), discover, option82(theirs))...), slices.Concat(discover, option82(ours)), ""},
		{"another's is kept", settings("keep"), marked, marked[optionField : len(marked)-1], ""},
		{"none to keep", settings("keep"), plain, slices.Concat(discover, option82(ours)), ""},
		{"an answer", settings("drop"), dhcp(answer, discover...), nil, notDHCP},
		{"short", settings("drop"), plain[:optionField], nil, notDHCP},
		{"empty", settings("drop"), nil, nil, notDHCP},
		{"no cookie", settings("drop"), with(plain, magicField, 1), nil, notDHCP},
		{"long", settings("drop"), slices.Concat(plain, make([]byte, mostRequest)), nil, tooLong},
		{"as long as can be", settings("drop"), slices.Concat(plain, make([]byte, mostRequest-len(plain))), slices.Concat(discover, option82(ours)), ""},
		{"relayed", settings("drop"), with(plain, giField, 192, 0, 2, 1), nil, relayed},
		{"hops", settings("drop"), with(plain, hopsField, mostHops), nil, tooManyHops},
		{"a group's MAC", settings("drop"), with(plain, chField, 1), nil, badHardware},
		{"no MAC", settings("drop"), with(plain, chField, 0, 0, 0, 0, 0, 0), nil, badHardware},
		{"a MAC of 5 bytes", settings("drop"), with(plain, lengthField, 5), nil, badHardware},
		{"an address of 17 bytes", settings("drop"), with(plain, typeField, 32, 17), nil, badHardware},
		{"InfiniBand", settings("drop"), with(plain, typeField, 32, 0), slices.Concat(discover, option82(ours)), ""},
		{"no end", settings("drop"), plain[:len(plain)-1], nil, damaged},
		{"an option beyond the end", settings("drop"), dhcp(request, 12, 200), nil, damaged},
		{"an option without length", off, append(slices.Clone(plain[:len(plain)-1]), 12), nil, damaged},
	} {
		before := slices.Clone(c.message)
		out, why := c.settings.forServers(c.message)
		if why != c.why || !bytes.Equal(before, c.message) {
			t.Errorf("%s: %q, want %q", c.what, why, c.why)
		}
		if why != "" {
			continue
		}
		want := append(with(c.message[:optionField], hopsField, 1), c.options...)
		copy(want[giField:], []byte{192, 0, 2, 1})
		want = append(want, optionEnd)
		if !bytes.HasPrefix(out, want) || len(bytes.Trim(out[len(want):], "\x00")) > 0 || len(out) > mostLength {
			t.Errorf("%s: %x\nwant %x", c.what, out, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	offer := []byte{53, 1, 2}
	plain := with(dhcp(answer, slices.Concat(offer, option82(ours))...), giField, 192, 0, 2, 1)
	given := with(plain, yiField, 192, 0, 2, 100)
	foreignOption := with(with(dhcp(answer, slices.Concat(offer, option82(theirs))...), giField, 192, 0, 2, 1), yiField, 192, 0, 2, 100)
	none := with(with(dhcp(answer, offer...), giField, 192, 0, 2, 1), yiField, 192, 0, 2, 100)
	host := delivery{[6]byte(hostMAC), netip.MustParseAddr("192.0.2.100")}
	off := settings("")
	off.Option = nil
	for _, c := range []struct {
		what     string
		settings Settings
		from     netip.Addr
		message  []byte
		options  []byte
		to       delivery
		why      reason
	}{
		{"to the host", settings("drop"), server, given, offer, host, ""},
		{"to everybody, as the host asked", settings("drop"), server, with(given, flagsField, broadcastFlag), offer, everybody, ""},
		{"without an address (NAK)", settings("drop"), server, plain, offer, everybody, ""},
		{"to the address that the host has (INFORM)", settings("drop"), server, with(plain, ciField, 192, 0, 2, 50), offer, delivery{[6]byte(hostMAC), netip.MustParseAddr("192.0.2.50")}, ""},
		{"no Ethernet", settings("drop"), server, with(given, typeField, 32, 0), offer, everybody, ""},
		{"a server without option 82", settings("drop"), server, none, offer, host, ""},
		{"not from a server", settings("drop"), netip.MustParseAddr("198.51.100.10"), given, nil, delivery{}, foreign},
		{"for another relay", settings("drop"), server, with(given, giField, 192, 0, 2, 2), nil, delivery{}, notOurs},
		{"another's option", settings("drop"), server, foreignOption, nil, delivery{}, wrongOption},
		{"another's option where it is replaced", settings("replace"), server, foreignOption, nil, delivery{}, wrongOption},
		{"a switch's option", settings("keep"), server, foreignOption, slices.Concat(offer, option82(theirs)), host, ""},
		{"a switch's option where none is added", off, server, foreignOption, slices.Concat(offer, option82(theirs)), host, ""},
		{"the option twice", settings("drop"), server, with(dhcp(answer, slices.Concat(option82(ours), option82(ours))...), giField, 192, 0, 2, 1), nil, delivery{}, wrongOption},
		{"long", settings("drop"), server, slices.Concat(given, make([]byte, mostLength-len(given))), offer, host, ""},
		{"too long", settings("drop"), server, slices.Concat(given, make([]byte, mostLength)), nil, delivery{}, tooLong},
		{"a request", settings("drop"), server, with(given, opField, request), nil, delivery{}, notDHCP},
		{"no end", settings("drop"), server, given[:len(given)-1], nil, delivery{}, damaged},
	} {
		out, to, why := c.settings.forHost(c.message, c.from)
		if why != c.why || why == "" && to != c.to {
			t.Errorf("%s: %q to %v, want %q to %v", c.what, why, to, c.why, c.to)
		}
		if want := append(slices.Concat(c.message[:min(optionField, len(c.message))], c.options), optionEnd); why == "" && !bytes.HasPrefix(out, want) {
			t.Errorf("%s: %x\nwant %x", c.what, out, want)
		}
	}
}

// Whatever comes, nothing breaks, and what is passed on can be read again.
func TestAnyBytes(t *testing.T) {
	for range 20_000 {
		b := dhcp(byte(1+rand.N(2)), discover...)
		b = append(b[:len(b)-1], make([]byte, rand.N(60))...)
		for i := optionField + rand.N(9); i < len(b); i++ {
			b[i] = [...]byte{byte(rand.N(256)), optionRelay, optionEnd, 0, 1, 2, 3, 4}[rand.N(8)]
		}
		if rand.N(4) == 0 {
			b = b[:rand.N(len(b)+1)]
		}
		for _, existing := range []string{"drop", "replace", "keep"} {
			s := settings(existing)
			if out, why := s.forServers(b); why == "" {
				if found, _, ok := options(out); !ok || len(found) == 0 || existing == "replace" && len(found) != 1 {
					t.Fatalf("%s: %x became %x", existing, b, out)
				}
			}
			copy(b[min(giField, len(b)):], []byte{192, 0, 2, 1})
			if out, _, why := s.forHost(b, server); why == "" {
				if found, _, ok := options(out); !ok || existing != "keep" && len(found) > 0 {
					t.Fatalf("%s: %x became %x", existing, b, out)
				}
			}
			copy(b[min(giField, len(b)):], []byte{0, 0, 0, 0})
		}
	}
}

func TestRender(t *testing.T) {
	cfg := servicetest.Config(t, `  port: {}
  outer: {vlan: {parent: port, id: 100, protocol: 802.1ad}}
  inner: {vlan: {parent: outer, id: 20}, addresses: [203.0.113.1/24]}
  red0: {addresses: [203.0.113.129/25]}
  red: {vrf: {table: 5, interfaces: [red0]}}
services:
  dhcp-relay:
    lan: {servers: [198.51.100.9]}
    guests: {servers: [192.0.2.9], option-82: {}}
    inner: {servers: [192.0.2.9], option-82: {remote-id: here, existing: keep}}
`)
	got := Render(cfg)
	for name, want := range map[string]string{"lan": "", "guests": "\x01\x06guests\x02\x05attic", "inner": "\x01\x0bport:100:20\x02\x04here"} {
		if string(got[name].Option) != want {
			t.Errorf("%s: %q", name, got[name].Option)
		}
	}
	if s := got["inner"]; s.Existing != "keep" || s.Address != netip.MustParseAddr("203.0.113.1") || s.VRF != "" || got["guests"].Existing != "drop" {
		t.Errorf("%+v", got)
	}
	cfg.Services.DHCPRelay["red0"] = &config.DHCPRelay{Servers: []netip.Addr{server}}
	if s := Render(cfg)["red0"]; s.VRF != "red" {
		t.Errorf("%+v", s)
	}
}

// So many requests at once, and so many a second.
func TestBucket(t *testing.T) {
	var b bucket
	now := time.Unix(1000, 0)
	passed := func(of int) (n int) {
		for range of {
			if b.take(now) {
				n++
			}
		}
		return n
	}
	if n := passed(3 * burst); n != burst {
		t.Errorf("%d at once", n)
	}
	now = now.Add(time.Second)
	if n := passed(3 * burst); n != perSecond {
		t.Errorf("%d in a second", n)
	}
}
