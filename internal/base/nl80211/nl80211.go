// SPDX-License-Identifier: Apache-2.0

// Package nl80211 asks Linux for its radios and the Wi-Fi interfaces on them (nl80211, a family of generic netlink),
// makes and removes such interfaces, and reads the database of what countries allow.
package nl80211

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// ErrNone says that this kernel has no Wi-Fi.
var ErrNone = errors.New("the kernel has no Wi-Fi (nl80211): the module cfg80211 is missing or not loaded")

var native = binary.NativeEndian

// genlHeader is the length of a header of generic netlink: command, version, two bytes of padding.
const genlHeader = 4

// Type is what an interface does with its radio.
type Type uint32

// The types.
const (
	Station     Type = unix.NL80211_IFTYPE_STATION
	AccessPoint Type = unix.NL80211_IFTYPE_AP
	Mesh        Type = unix.NL80211_IFTYPE_MESH_POINT
)

// String is the word of the configuration.
func (t Type) String() string {
	switch t {
	case Station:
		return "station"
	case AccessPoint:
		return "access point"
	case Mesh:
		return "mesh"
	}
	return "other"
}

// Conn is an open question and answer with the kernel.
type Conn struct {
	socket *nlmsg.Socket
	family uint16
}

// Open begins to ask. It fails with ErrNone where there is no Wi-Fi.
func Open() (*Conn, error) {
	family, err := netlink.GenlFamilyGet("nl80211")
	if errors.Is(err, unix.ENOENT) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("find nl80211: %w", err)
	}
	s, err := nlmsg.Dial(unix.NETLINK_GENERIC, unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK)
	if err != nil {
		return nil, err
	}
	return &Conn{s, family.ID}, nil
}

// Close ends the asking.
func (c *Conn) Close() { c.socket.Close() }

// attrs are attributes of a request.
type attrs []byte

func (a attrs) add(kind uint16, value []byte) attrs    { return nlmsg.AppendAttr(a, kind, value) }
func (a attrs) number(kind uint16, value uint32) attrs { return nlmsg.AppendAttr32(a, kind, value) }
func (a attrs) text(kind uint16, value string) attrs   { return a.add(kind, append([]byte(value), 0)) }
func (a attrs) small(kind uint16, value byte) attrs    { return a.add(kind, []byte{value}) }
func body(command byte, a attrs) []byte                { return append([]byte{command, 0, 0, 0}, a...) }
func link(index int) attrs                             { return attrs{}.number(unix.NL80211_ATTR_IFINDEX, uint32(index)) }
func radio(phy int) attrs                              { return attrs{}.number(unix.NL80211_ATTR_WIPHY, uint32(phy)) }
func (c *Conn) do(ctx context.Context, command byte, a attrs) error {
	_, err := c.socket.Ask(ctx, c.family, unix.NLM_F_ACK, body(command, a), func(nlmsg.Message) error { return nil })
	return err
}

// dump calls each for the attributes of every message of an answer.
func (c *Conn) dump(ctx context.Context, command byte, a attrs, each func(b []byte)) error {
	const tries = 5
	for range tries {
		intact, err := c.socket.Ask(ctx, c.family, unix.NLM_F_DUMP, body(command, a), func(m nlmsg.Message) error {
			if len(m.Body) >= genlHeader {
				each(m.Body[genlHeader:])
			}
			return nil
		})
		if err != nil || intact {
			return err
		}
	}
	return errors.New("what the kernel says of Wi-Fi kept changing while it was read")
}

// Make makes an interface on a radio.
func (c *Conn) Make(ctx context.Context, phy int, name string, t Type) error {
	a := radio(phy).text(unix.NL80211_ATTR_IFNAME, name).number(unix.NL80211_ATTR_IFTYPE, uint32(t))
	if err := c.do(ctx, unix.NL80211_CMD_NEW_INTERFACE, a); err != nil {
		return fmt.Errorf("make Wi-Fi interface %s: %w", name, err)
	}
	return nil
}

// Remove removes an interface. One that is gone already is no error.
func (c *Conn) Remove(ctx context.Context, index int) error {
	err := c.do(ctx, unix.NL80211_CMD_DEL_INTERFACE, link(index))
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// SetCoverage tells a radio its coverage class: how long it waits for acknowledgements.
func (c *Conn) SetCoverage(ctx context.Context, phy int, class uint8) error {
	return c.do(ctx, unix.NL80211_CMD_SET_WIPHY, radio(phy).small(unix.NL80211_ATTR_WIPHY_COVERAGE_CLASS, class))
}

// Power of a radio.
const (
	automatic = unix.NL80211_TX_POWER_AUTOMATIC
	fixed     = unix.NL80211_TX_POWER_FIXED
)

// SetPower tells a radio how loud it may be in dBm; 0 leaves that to country and card.
func (c *Conn) SetPower(ctx context.Context, phy, dBm int) error {
	a := radio(phy)
	if dBm == 0 {
		a = a.number(unix.NL80211_ATTR_WIPHY_TX_POWER_SETTING, automatic)
	} else {
		a = a.number(unix.NL80211_ATTR_WIPHY_TX_POWER_SETTING, fixed).number(unix.NL80211_ATTR_WIPHY_TX_POWER_LEVEL, uint32(100*dBm))
	}
	return c.do(ctx, unix.NL80211_CMD_SET_WIPHY, a)
}

// SetCountry asks for the rules of a country.
func (c *Conn) SetCountry(ctx context.Context, code string) error {
	return c.do(ctx, unix.NL80211_CMD_REQ_SET_REG, attrs{}.text(unix.NL80211_ATTR_REG_ALPHA2, code))
}

// Country is the one whose rules hold, "00" for none in particular.
func (c *Conn) Country(ctx context.Context) (code string, err error) {
	_, err = c.socket.Ask(ctx, c.family, unix.NLM_F_ACK, body(unix.NL80211_CMD_GET_REG, nil), func(m nlmsg.Message) error {
		for kind, v := range nlmsg.Attributes(m.Body[min(genlHeader, len(m.Body)):]) {
			if kind == unix.NL80211_ATTR_REG_ALPHA2 && len(v) >= 2 {
				code = string(v[:2])
			}
		}
		return nil
	})
	return code, err
}

// path is the bus address of a radio's device, "" when it has none.
func path(phy string) string {
	to, err := os.Readlink(filepath.Join("/sys/class/ieee80211", phy, "device"))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}
