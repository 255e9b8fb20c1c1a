// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// Station is a MAC address that a bridge knows (its forwarding database, FDB).
type Station struct {
	Bridge string  `json:"bridge"`
	MAC    string  `json:"mac"`
	VLAN   int     `json:"vlan,omitempty"`
	Port   string  `json:"port"`
	Kind   string  `json:"kind"`          // learned, static (somebody wrote it), or own: an address of the bridge or of a port
	Age    float64 `json:"age,omitempty"` // seconds since a frame came from it; of learned ones
}

// fdbEntry is an entry as the kernel tells it.
type fdbEntry struct {
	port, master int
	mac          net.HardwareAddr
	vlan         int
	kind         string
	age          float64
}

// Stations reads what the bridges know, without multicast groups.
func (k *Kernel) Stations(ctx context.Context) ([]Station, error) {
	a, err := newAsker()
	if err != nil {
		return nil, err
	}
	defer a.Close()
	names, err := linkNames(ctx, a)
	if err != nil {
		return nil, err
	}
	found, err := dumpAll(ctx, a, "stations of bridges", unix.RTM_GETNEIGH, neighLen,
		func(body []byte, _ *builder) { body[0] = familyBridge }, decodeStation)
	if err != nil {
		return nil, err
	}
	list := []Station{}
	for _, e := range found {
		list = append(list, Station{Bridge: names[e.master], MAC: e.mac.String(), VLAN: e.vlan, Port: names[e.port], Kind: e.kind, Age: e.age})
	}
	slices.SortFunc(list, func(a, b Station) int {
		return cmp.Or(cmp.Compare(a.Bridge, b.Bridge), cmp.Compare(a.VLAN, b.VLAN), cmp.Compare(a.MAC, b.MAC), cmp.Compare(a.Port, b.Port))
	})
	return list, nil
}

// ticks of struct nda_cacheinfo in a second (USER_HZ).
const userTicks = 100

// decodeStation reads an RTM_NEWNEIGH body of the family of bridges.
func decodeStation(m nlmsg.Message) (e fdbEntry, ok bool) {
	b := m.Body
	if len(b) < neighLen || b[0] != familyBridge {
		return fdbEntry{}, false
	}
	e.port = int(int32(native.Uint32(b[4:])))
	for kind, value := range nlmsg.Attributes(b[neighLen:]) {
		switch {
		case kind == unix.NDA_LLADDR && len(value) == 6:
			e.mac = append(net.HardwareAddr(nil), value...)
		case kind == unix.NDA_VLAN && len(value) >= 2:
			e.vlan = int(native.Uint16(value))
		case kind == unix.NDA_MASTER && len(value) >= 4:
			e.master = int(native.Uint32(value))
		case kind == unix.NDA_CACHEINFO && len(value) >= 16: // confirmed, used, updated, references
			e.age = float64(native.Uint32(value[8:])) / userTicks
		}
	}
	switch state := native.Uint16(b[8:]); {
	case state&unix.NUD_PERMANENT != 0:
		e.kind, e.age = "own", 0
	case state&unix.NUD_NOARP != 0:
		e.kind, e.age = "static", 0
	default:
		e.kind = "learned"
	}
	return e, e.master != 0 && e.mac != nil && e.mac[0]&1 == 0
}
