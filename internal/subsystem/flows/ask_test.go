// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/subsystem/fastpath/flow"
)

// tell puts a connection into the kernel's table.
func tell(t *testing.T, original, reply flow.Key, status uint32) {
	t.Helper()
	body := askFor(original)
	reply.Zone = 0 // which stands once in a message
	as := askFor(reply)[len(generic):]
	binary.NativeEndian.PutUint16(as[2:], nl.CTA_TUPLE_REPLY|unix.NLA_F_NESTED)
	body = append(body, as...)
	body = nlmsg.AppendAttr(body, nl.CTA_TIMEOUT, binary.BigEndian.AppendUint32(nil, 60))
	body = nlmsg.AppendAttr(body, nl.CTA_STATUS, binary.BigEndian.AppendUint32(nil, confirmed|status))
	s, err := nlmsg.Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Ask(t.Context(), conntrackMessage(nl.IPCTNL_MSG_CT_NEW), unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, body, func(nlmsg.Message) error { return nil })
	if err != nil {
		t.Fatalf("create %v: %v", original, err)
	}
}

// A connection is found by the key of either direction, and is carriable when both have spoken.
func TestCarriable(t *testing.T) {
	key := func(src, dst string, id uint16, protocol uint8) flow.Key {
		return flow.Key{Source: netip.MustParseAddr(src), Destination: netip.MustParseAddr(dst), SourcePort: id, DestinationPort: id, Protocol: protocol}
	}
	reply := func(k flow.Key) flow.Key {
		k = k.Reply(0)
		if k.Protocol != unix.IPPROTO_GRE {
			k.EchoReply = true
		}
		return k
	}
	four, unanswered := key("192.0.2.1", "192.0.2.2", 7, unix.IPPROTO_ICMP), key("192.0.2.1", "192.0.2.2", 8, unix.IPPROTO_ICMP)
	translated := reply(four)
	translated.Destination = netip.MustParseAddr("198.51.100.1")
	six, gre := key("2001:db8::1", "2001:db8::2", 7, unix.IPPROTO_ICMPV6), key("192.0.2.1", "192.0.2.2", 0, unix.IPPROTO_GRE)
	tell(t, four, translated, seenReply)
	tell(t, unanswered, reply(unanswered), 0)
	tell(t, six, reply(six), seenReply)
	tell(t, gre, reply(gre), seenReply)
	in := func(k flow.Key, zone uint16) flow.Key {
		k.Zone = zone
		return k
	}
	tell(t, in(four, 100), in(reply(four), 100), seenReply)
	tell(t, in(six, 101), in(reply(six), 101), 0)
	var a Asker
	defer a.Close()
	for _, c := range []struct {
		name string
		ask  flow.Key
		want [2]flow.Key // zero: not to be carried
	}{
		{"echo", four, [2]flow.Key{four, translated}},
		{"its translated reply", translated, [2]flow.Key{four, translated}},
		{"a reply that is not translated", reply(four), [2]flow.Key{}},
		{"echo of IPv6", six, [2]flow.Key{six, reply(six)}},
		{"its reply", reply(six), [2]flow.Key{six, reply(six)}},
		{"an echo of the other side with the same id", six.Reply(0), [2]flow.Key{}},
		{"echo without an answer", unanswered, [2]flow.Key{}},
		{"another id", key("192.0.2.1", "192.0.2.2", 9, unix.IPPROTO_ICMP), [2]flow.Key{}},
		{"the same in a VRF", in(four, 100), [2]flow.Key{in(four, 100), in(reply(four), 100)}},
		{"its reply there", in(reply(four), 100), [2]flow.Key{in(four, 100), in(reply(four), 100)}},
		{"one without an answer there", in(six, 101), [2]flow.Key{}},
		{"one of another VRF", in(four, 101), [2]flow.Key{}},
		{"GRE", gre, [2]flow.Key{gre, reply(gre)}},
		{"ESP", key("192.0.2.1", "192.0.2.2", 0, unix.IPPROTO_ESP), [2]flow.Key{}},
	} {
		keys, ok, err := a.Carriable(t.Context(), c.ask)
		if err != nil || ok != (c.want != [2]flow.Key{}) || ok && keys != c.want {
			t.Errorf("%s: %v, %t, %v, want %v", c.name, keys, ok, err, c.want)
		}
	}
}
