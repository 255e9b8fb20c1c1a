// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/subsystem/fastpath/flow"
)

// createIn makes conntrack know a TCP connection in a zone.
func createIn(t *testing.T, zone uint16, k [2]flow.Key, state uint8) {
	t.Helper()
	s, err := nlmsg.Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	body := askFor(k[0])
	reply := askFor(k[1])[len(generic):]
	binary.NativeEndian.PutUint16(reply[2:], nl.CTA_TUPLE_REPLY|unix.NLA_F_NESTED)
	body = append(body, reply...)
	body = nlmsg.AppendAttr(body, nl.CTA_TIMEOUT, binary.BigEndian.AppendUint32(nil, 600))
	body = nlmsg.AppendAttr(body, nl.CTA_ZONE, binary.BigEndian.AppendUint16(nil, zone))
	tcp := nlmsg.AppendAttr(nil, nl.CTA_PROTOINFO_TCP_STATE, []byte{state})
	tcp = nlmsg.AppendAttr(nil, nl.CTA_PROTOINFO_TCP|unix.NLA_F_NESTED, tcp)
	body = nlmsg.AppendAttr(body, nl.CTA_PROTOINFO|unix.NLA_F_NESTED, tcp)
	flags := uint16(unix.NLM_F_CREATE | unix.NLM_F_EXCL | unix.NLM_F_ACK)
	if _, err := s.Ask(t.Context(), conntrackMessage(createMessage), flags, body, func(nlmsg.Message) error { return nil }); err != nil {
		t.Fatalf("create %v in zone %d: %v", k, zone, err)
	}
}

const createMessage = 0 // IPCTNL_MSG_CT_NEW

// TestTwinConnections has connections with the same addresses and ports in two VRFs and in the main table: each is one of
// its own, in lists, counts and translations, and when it is cleared.
func TestTwinConnections(t *testing.T) {
	zones := network(t)
	for table, state := range map[uint16]uint8{0: 3, 200: 7, 201: 3} {
		createIn(t, table, examples[0].Key, state)
	}
	fast := &pretended{flows: []flow.Flow{{Key: examples[0].Key, Packets: [2]uint64{10, 20}, Bytes: [2]uint64{1000, 30000}}}}
	table := New(fast, func() map[string]string { return zones })
	list := func() (found []string) {
		for _, f := range answer(t, table, "").Flows {
			found = append(found, fmt.Sprintf("%s %s %d", f.VRF, f.Path, f.Packets[0]))
		}
		slices.Sort(found)
		return found
	}
	if got, want := list(), []string{" fast-path 10", "table 200 kernel 0", "table 201 kernel 0"}; !slices.Equal(got, want) {
		t.Errorf("connections %q, want %q", got, want)
	}
	if hosts := byHost(t, table, "src 192.0.2.10"); len(hosts.Hosts) != 3 {
		t.Errorf("hosts: %+v", hosts)
	}
	if now, err := table.Translations(t.Context()); err != nil || len(now.Outside) != 3 || now.Outside[1].VRF != "table 200" || now.Outside[1].Connections != 1 {
		t.Errorf("translations: %+v, %v", now, err)
	}
	if _, err := table.Clear(t.Context(), Filter{VRF: "red"}); err == nil || !strings.Contains(err.Error(), `vrf "red": the router has no VRF`) {
		t.Errorf("cleared in a VRF that is not there: %v", err)
	}
	if n, err := table.Clear(t.Context(), Filter{State: "time-wait"}); n != 1 || err != nil {
		t.Errorf("cleared %d, %v", n, err)
	}
	if got, want := list(), []string{" fast-path 10", "table 201 kernel 0"}; !slices.Equal(got, want) {
		t.Errorf("connections that were not cleared: %q, want %q", got, want)
	}
}
