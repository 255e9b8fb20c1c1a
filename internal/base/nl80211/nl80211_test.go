// SPDX-License-Identifier: Apache-2.0

package nl80211

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func eight(v uint64) []byte { return native.AppendUint64(nil, v) }

// A radio is told in pieces: a part of its bands in each.
func TestRadioInPieces(t *testing.T) {
	channel := func(mhz uint32, flag uint16) attrs {
		a := attrs{}.number(unix.NL80211_FREQUENCY_ATTR_FREQ, mhz).number(unix.NL80211_FREQUENCY_ATTR_MAX_TX_POWER, 2000)
		if flag != 0 {
			a = a.add(flag, nil)
		}
		return a
	}
	he := attrs{}.add(unix.NL80211_BAND_IFTYPE_ATTR_IFTYPES, attrs{}.add(uint16(AccessPoint), nil)).add(unix.NL80211_BAND_IFTYPE_ATTR_HE_CAP_PHY, make([]byte, 11))
	first := attrs{}.text(unix.NL80211_ATTR_WIPHY_NAME, "phy3").small(unix.NL80211_ATTR_WIPHY_COVERAGE_CLASS, 2).
		add(unix.NL80211_ATTR_SUPPORTED_IFTYPES, attrs{}.add(uint16(Station), nil).add(uint16(AccessPoint), nil)).
		add(unix.NL80211_ATTR_WIPHY_BANDS, attrs{}.add(1, attrs{}.add(unix.NL80211_BAND_ATTR_HT_CAPA, []byte{0x7e, 0x10}).
			number(unix.NL80211_BAND_ATTR_VHT_CAPA, 0x12).add(unix.NL80211_BAND_ATTR_IFTYPE_DATA, attrs{}.add(0, he)).
			add(unix.NL80211_BAND_ATTR_FREQS, attrs{}.add(0, channel(5180, 0)))))
	second := attrs{}.add(unix.NL80211_ATTR_WIPHY_BANDS, attrs{}.add(1, attrs{}.
		add(unix.NL80211_BAND_ATTR_FREQS, attrs{}.add(1, channel(5260, unix.NL80211_FREQUENCY_ATTR_RADAR)))))
	r, bands := Radio{}, map[uint16]*Band{}
	r.read(first, bands)
	r.read(second, bands)
	b := bands[1]
	if r.Name != "phy3" || r.Coverage != 2 || len(r.Types) != 2 || b == nil {
		t.Fatalf("%+v", r)
	}
	if b.HT != 0x107e || b.VHT != 0x12 || !b.IsVHT || !b.HE || len(b.Channels) != 2 || b.Channels[0].Power != 20 || !b.Channels[1].Radar || b.Channels[0].Radar {
		t.Errorf("%+v", b)
	}
	r.Bands = []Band{*b}
	if _, found := r.Find(5260); !found {
		t.Error("no 5260 MHz")
	}
	if _, found := r.Find(2412); found {
		t.Error("2412 MHz is not of this radio")
	}
}

// What is told of another end; of one of a mesh, whether the link to it is set up.
func TestPeer(t *testing.T) {
	info := attrs{}.add(unix.NL80211_STA_INFO_SIGNAL, []byte{0xc4}).number(unix.NL80211_STA_INFO_RX_BYTES, 7).
		add(unix.NL80211_STA_INFO_RX_BYTES64, eight(1<<33)).number(unix.NL80211_STA_INFO_TX_BYTES, 9).
		add(unix.NL80211_STA_INFO_TX_BITRATE, attrs{}.add(unix.NL80211_RATE_INFO_BITRATE, []byte{1, 0}).number(unix.NL80211_RATE_INFO_BITRATE32, 8667)).
		number(unix.NL80211_STA_INFO_INACTIVE_TIME, 1500).number(unix.NL80211_STA_INFO_CONNECTED_TIME, 61)
	authorized := native.AppendUint32(nil, 1<<unix.NL80211_STA_FLAG_AUTHORIZED)
	var p Peer
	if mesh := p.read(info.add(unix.NL80211_STA_INFO_STA_FLAGS, append(authorized, authorized...))); mesh {
		t.Error("a client is taken for a peer of a mesh")
	}
	want := Peer{Signal: -60, Received: 1 << 33, Sent: 9, SendAt: 8667, Silent: 1500 * time.Millisecond, Connected: 61 * time.Second, Joined: true}
	if p.Signal != want.Signal || p.Received != want.Received || p.Sent != want.Sent || p.SendAt != want.SendAt || p.Silent != want.Silent || p.Connected != want.Connected || !p.Joined {
		t.Errorf("%+v", p)
	}
	for state, up := range map[byte]bool{unix.NL80211_PLINK_ESTAB: true, unix.NL80211_PLINK_LISTEN: false} {
		var p Peer
		if mesh := p.read(info.small(unix.NL80211_STA_INFO_PLINK_STATE, state)); !mesh || p.Joined != up {
			t.Errorf("link state %d: mesh %v, %+v", state, mesh, p)
		}
	}
}
