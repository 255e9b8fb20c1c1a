// SPDX-License-Identifier: Apache-2.0

package nl80211

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// Interface is one Wi-Fi interface.
type Interface struct {
	Index int
	Name  string
	Radio int
	Type  Type
	MAC   net.HardwareAddr
	SSID  string
	MHz   int // of its channel, 0 while it has none
	Width int // MHz
	Power int // dBm
}

// Interfaces lists the interfaces by their index.
func (c *Conn) Interfaces(ctx context.Context) (list []Interface, err error) {
	err = c.dump(ctx, unix.NL80211_CMD_GET_INTERFACE, nil, func(b []byte) {
		var i Interface
		for kind, v := range nlmsg.Attributes(b) {
			switch kind {
			case unix.NL80211_ATTR_IFINDEX:
				i.Index = number(v)
			case unix.NL80211_ATTR_IFNAME:
				i.Name = word(v)
			case unix.NL80211_ATTR_WIPHY:
				i.Radio = number(v)
			case unix.NL80211_ATTR_IFTYPE:
				i.Type = Type(number(v))
			case unix.NL80211_ATTR_MAC:
				i.MAC = bytes.Clone(v)
			case unix.NL80211_ATTR_SSID:
				i.SSID = string(v)
			case unix.NL80211_ATTR_WIPHY_FREQ:
				i.MHz = number(v)
			case unix.NL80211_ATTR_CHANNEL_WIDTH:
				i.Width = widths[number(v)]
			case unix.NL80211_ATTR_WIPHY_TX_POWER_LEVEL: // in 0.01 dBm
				i.Power = number(v) / 100
			}
		}
		if i.Index != 0 { // a P2P device has none
			list = append(list, i)
		}
	})
	slices.SortFunc(list, func(a, b Interface) int { return cmp.Compare(a.Index, b.Index) })
	return list, err
}

// widths are the kernel's words for the width of a channel, in MHz.
var widths = map[int]int{
	unix.NL80211_CHAN_WIDTH_20_NOHT: 20, unix.NL80211_CHAN_WIDTH_20: 20, unix.NL80211_CHAN_WIDTH_40: 40,
	unix.NL80211_CHAN_WIDTH_80: 80, unix.NL80211_CHAN_WIDTH_80P80: 160, unix.NL80211_CHAN_WIDTH_160: 160,
}

// Peer is another end of an interface: a client of an access point, the access point of a station, a peer of a mesh.
type Peer struct {
	MAC       net.HardwareAddr
	Signal    int // dBm
	Received  uint64
	Sent      uint64
	ReceiveAt int // bit rate of the last packet, in 100 kbit/s; 0 unknown
	SendAt    int
	Silent    time.Duration // since it was heard
	Connected time.Duration
	Joined    bool // it may send data; of a mesh, the link to it is set up
}

// linkUp is the state of a link to a peer of a mesh that carries data (NL80211_PLINK_ESTAB).
const linkUp = unix.NL80211_PLINK_ESTAB

// Peers lists the other ends of an interface.
func (c *Conn) Peers(ctx context.Context, index int) (list []Peer, err error) {
	err = c.dump(ctx, unix.NL80211_CMD_GET_STATION, link(index), func(b []byte) {
		p := Peer{}
		mesh := false
		for kind, v := range nlmsg.Attributes(b) {
			switch kind {
			case unix.NL80211_ATTR_MAC:
				p.MAC = bytes.Clone(v)
			case unix.NL80211_ATTR_STA_INFO:
				mesh = p.read(v)
			}
		}
		if len(p.MAC) == 6 && (!mesh || p.Joined) {
			list = append(list, p)
		}
	})
	slices.SortFunc(list, func(a, b Peer) int { return bytes.Compare(a.MAC, b.MAC) })
	return list, err
}

// read takes what is told of a peer, and says whether it is one of a mesh.
func (p *Peer) read(b []byte) (mesh bool) {
	bytes32 := [2]uint64{}
	for kind, v := range nlmsg.Attributes(b) {
		switch {
		case kind == unix.NL80211_STA_INFO_SIGNAL && len(v) > 0:
			p.Signal = int(int8(v[0]))
		case kind == unix.NL80211_STA_INFO_RX_BYTES64 && len(v) >= 8:
			p.Received = native.Uint64(v)
		case kind == unix.NL80211_STA_INFO_TX_BYTES64 && len(v) >= 8:
			p.Sent = native.Uint64(v)
		case kind == unix.NL80211_STA_INFO_RX_BYTES:
			bytes32[0] = uint64(number(v))
		case kind == unix.NL80211_STA_INFO_TX_BYTES:
			bytes32[1] = uint64(number(v))
		case kind == unix.NL80211_STA_INFO_RX_BITRATE:
			p.ReceiveAt = rate(v)
		case kind == unix.NL80211_STA_INFO_TX_BITRATE:
			p.SendAt = rate(v)
		case kind == unix.NL80211_STA_INFO_INACTIVE_TIME:
			p.Silent = time.Duration(number(v)) * time.Millisecond
		case kind == unix.NL80211_STA_INFO_CONNECTED_TIME:
			p.Connected = time.Duration(number(v)) * time.Second
		case kind == unix.NL80211_STA_INFO_PLINK_STATE && len(v) > 0:
			mesh, p.Joined = true, v[0] == linkUp
		case kind == unix.NL80211_STA_INFO_STA_FLAGS && len(v) >= 8: // struct nl80211_sta_flag_update: mask, set
			const authorized = 1 << unix.NL80211_STA_FLAG_AUTHORIZED
			p.Joined = p.Joined || native.Uint32(v[4:])&authorized != 0
		}
	}
	p.Received, p.Sent = max(p.Received, bytes32[0]), max(p.Sent, bytes32[1]) // old kernels have the short ones alone
	return mesh
}

func rate(b []byte) (r int) {
	for kind, v := range nlmsg.Attributes(b) {
		switch {
		case kind == unix.NL80211_RATE_INFO_BITRATE32:
			return number(v)
		case kind == unix.NL80211_RATE_INFO_BITRATE && len(v) >= 2:
			r = int(native.Uint16(v))
		}
	}
	return r
}

// Use is how busy the channel of an interface is, since the interface is there.
type Use struct {
	MHz    int
	Noise  int           // dBm; 0 unknown
	Time   time.Duration // that the radio was on the channel
	Busy   time.Duration // of it, that it was not silent
	Sent   time.Duration // of it, with frames of this radio
	InTime bool          // whether Time is known
}

// Use reads it; ok is false where the driver does not tell.
func (c *Conn) Use(ctx context.Context, index int) (u Use, ok bool, err error) {
	err = c.dump(ctx, unix.NL80211_CMD_GET_SURVEY, link(index), func(b []byte) {
		for kind, v := range nlmsg.Attributes(b) {
			if kind != unix.NL80211_ATTR_SURVEY_INFO {
				continue
			}
			var s Use
			inUse := false
			for kind, v := range nlmsg.Attributes(v) {
				switch {
				case kind == unix.NL80211_SURVEY_INFO_FREQUENCY:
					s.MHz = number(v)
				case kind == unix.NL80211_SURVEY_INFO_NOISE && len(v) > 0:
					s.Noise = int(int8(v[0]))
				case kind == unix.NL80211_SURVEY_INFO_IN_USE:
					inUse = true
				case len(v) < 8:
				case kind == unix.NL80211_SURVEY_INFO_TIME:
					s.Time, s.InTime = milliseconds(v), true
				case kind == unix.NL80211_SURVEY_INFO_TIME_BUSY:
					s.Busy = milliseconds(v)
				case kind == unix.NL80211_SURVEY_INFO_TIME_TX:
					s.Sent = milliseconds(v)
				}
			}
			if inUse {
				u, ok = s, true
			}
		}
	})
	return u, ok, err
}

func milliseconds(v []byte) time.Duration { return time.Duration(native.Uint64(v)) * time.Millisecond }

func number(v []byte) int {
	if len(v) < 4 {
		return 0
	}
	return int(int32(native.Uint32(v)))
}

// word is a text that ends with a zero.
func word(v []byte) string { text, _, _ := bytes.Cut(v, []byte{0}); return string(text) }

// sysfs reads a file of a radio.
func sysfs(phy, file string) (string, error) {
	b, err := os.ReadFile(filepath.Join("/sys/class/ieee80211", phy, file))
	return strings.TrimSpace(string(b)), err
}
