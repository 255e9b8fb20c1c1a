// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding"
	"encoding/json"
	"testing"
	"time"
)

// value is a type with a text form, by pointer.
type value interface {
	encoding.TextUnmarshaler
	encoding.TextMarshaler
}

func TestValuesReadAndWrite(t *testing.T) {
	for _, test := range []struct {
		v          value
		text, want string
	}{
		{new(ASN), "64500", "64500"},
		{new(ASN), "1.10", "65546"},
		{new(ASN), "65001.10", "4259905546"},
		{new(ASN), "0.65000", "65000"},
		{new(ASN), "4294967294", "4294967294"},
		{new(AreaID), "0", "0.0.0.0"},
		{new(AreaID), "0.0.0.1", "0.0.0.1"},
		{new(AreaID), "4294967295", "255.255.255.255"},
		{new(AreaID), "256", "0.0.1.0"},
		{new(MAC), "52:54:00:AB:cd:0f", "52:54:00:ab:cd:0f"},
		{new(MAC), "52-54-00-12-34-56", "52:54:00:12:34:56"},
		{new(Duration), "300ms", "300ms"},
		{new(Duration), "1500ms", "1500ms"},
		{new(Duration), "90s", "90s"},
		{new(Duration), "60s", "1m"},
		{new(Duration), "1h30m", "90m"},
		{new(Duration), "1d", "1d"},
		{new(Duration), "0s", "0s"},
		{new(Rate), "100Mbit", "100Mbit"},
		{new(Rate), "2.5Gbit", "2500Mbit"},
		{new(Rate), "64 kbit", "64kbit"},
		{new(Rate), "1000000kbit", "1Gbit"},
		{new(Rate), "7bit", "7bit"},
		{new(Prefix), "192.0.2.0/24", "192.0.2.0/24"},
		{new(Prefix), "2001:DB8::/32", "2001:db8::/32"},
		{new(Prefix), "0.0.0.0/0", "0.0.0.0/0"},
		{new(Address), "192.0.2.1/24", "192.0.2.1/24"},
		{new(Address), "2001:db8:0:0::1/64", "2001:db8::1/64"},
		{new(NextHop), "198.51.100.1", "198.51.100.1"},
		{new(NextHop), "fe80::1%lan", "fe80::1%lan"},
		{new(NextHop), "198.51.100.1%wan", "198.51.100.1%wan"},
		{new(NextHop), "eth0.10", "eth0.10"},
		{new(OnOff), "true", "on"},
		{new(OnOff), "yes", "on"},
		{new(OnOff), "no", "off"},
		{new(OnOff), "off", "off"},
	} {
		if err := test.v.UnmarshalText([]byte(test.text)); err != nil {
			t.Errorf("%T %q: %v", test.v, test.text, err)
			continue
		}
		if got, err := test.v.MarshalText(); err != nil || string(got) != test.want {
			t.Errorf("%T %q: got %s, want %s (%v)", test.v, test.text, got, test.want, err)
		}
		if err := test.v.UnmarshalText([]byte(test.want)); err != nil {
			t.Errorf("%T: own text %q: %v", test.v, test.want, err)
		}
	}
}

func TestValuesRefused(t *testing.T) {
	for _, test := range []struct {
		v     value
		texts []string
	}{
		{new(ASN), []string{"", "x", "-1", "+1", "01", "1.", ".1", "1.65536", "65536.0", "1.1.1", "4294967296", "1e3", "0x1", "1_0", " 1", "AS1"}},
		{new(AreaID), []string{"", "x", "-1", "01", "4294967296", "0.0.0", "0.0.0.256", "::1", "0.0.0.0.0"}},
		{new(MAC), []string{"x", "52:54:00:12:34", "52:54:00:12:34:5", "52:54:00:12:34:567", "01:00:5e:00:00:01", "00:00:00:00:00:00", "52:54:00-12:34:56", "+2:54:00:12:34:56"}},
		{new(Duration), []string{"", "1", "s", "1x", "1s1s", "1s1m", "1.5s", "-1s", "01s", "1 s", "106752d", "99999999999s", "1ds", "1hm"}},
		{new(Rate), []string{"", "1", "bit", "0bit", "1.5bit", "1.Mbit", ".5Mbit", "1.2345Mbit", "-1Mbit", "01Mbit", "18446744073710Mbit", "1Mb", "1M", "100Mbps"}},
		{new(Prefix), []string{"", "192.0.2.1/24", "192.0.2.0", "192.0.2.0/33", "192.0.2.0/-1", "192.0.2.0/024", "::ffff:192.0.2.0/120", "fe80::%lan/64", "x/24"}},
		{new(Address), []string{"", "192.0.2.1", "192.0.2.1/33", "2001:db8::1/129", "192.0.2.1/255.255.255.0"}},
		{new(NextHop), []string{"", "%lan", "fe80::1%", "192.0.2", "192.0.2.256", "192.0.2.1/24", "fe80:::1"}},
		{new(OnOff), []string{"", "Yes", "On", "1", "enabled"}},
	} {
		for _, text := range test.texts {
			err := test.v.UnmarshalText([]byte(text))
			if err == nil {
				t.Errorf("%T takes %q", test.v, text)
				continue
			}
			if wrong, ok := err.(*wrongValue); !ok || wrong.message == "" || wrong.expected == "" {
				t.Errorf("%T %q: %#v says too little", test.v, text, err)
			} else if wrong.nearest != "" {
				if err := test.v.UnmarshalText([]byte(wrong.nearest)); err != nil {
					t.Errorf("%T %q: the suggested %q is refused too: %v", test.v, text, wrong.nearest, err)
				}
			}
		}
	}
}

func TestSecondsRoundUp(t *testing.T) {
	if got := Duration(1500 * time.Millisecond).Seconds(); got != 2 {
		t.Errorf("1500ms are %d seconds", got)
	}
}

func TestOnOff(t *testing.T) {
	on := OnOff(true)
	if off := OnOff(false); (*OnOff)(nil).On() || off.On() || !on.On() {
		t.Error("an absent switch takes the default, a present one its value")
	}
}

// A configuration as JSON, as the API sends it, reads back to the same router.
func TestJSONRoundTrip(t *testing.T) {
	cfg, _, err := Load("../../../docs/examples/campus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var again Config
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if !Equal(cfg, &again) {
		t.Errorf("JSON changed the configuration: %s", text)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"hostname", "router-id", "sysctl-profile", "mtu", "match", "via"}
	for typed, want := range map[string]string{
		"host-name": "hostname", "hostnmae": "hostname", "router_id": "router-id", "mut": "mtu", "banner": "", "x": "", "": "", "vai": "via", "hostname": "",
	} {
		if got := nearest(typed, words); got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
}
