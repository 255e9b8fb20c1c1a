// SPDX-License-Identifier: Apache-2.0

package sensors

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// registers are a module's, by device and page; an absent page is a driver that refuses.
type registers map[[3]byte][]byte

var errRefused = errors.New("refused")

func (r registers) read(device, page, offset byte) ([]byte, error) {
	b, ok := r[[3]byte{device, page, offset}]
	if !ok {
		return nil, errRefused
	}
	return b, nil
}

// page is 128 bytes with fields put into it; offsets count from its begin.
func page(fields map[int]any) []byte {
	b := make([]byte, pageSize)
	for at, value := range fields {
		switch v := value.(type) {
		case int:
			b[at] = byte(v)
		case string:
			copy(b[at:], v)
		case []uint16:
			for i, n := range v {
				binary.BigEndian.PutUint16(b[at+2*i:], n)
			}
		case []float32:
			for i, n := range v {
				binary.BigEndian.PutUint32(b[at+4*i:], math.Float32bits(n))
			}
		}
	}
	return b
}

// The fixtures are written from the tables of the specifications.
var (
	sfpSerial = map[int]any{0: 0x03, 20: "ACME OPTICS     ", 40: "SFP-10G-LR      ", 68: "A1B2C3          ", 92: 0x68} // SFF-8472, tables 4-1 and 8-5: internally calibrated
	// Temperature 75/-5/70/0 °C, voltage 3.6/3.0/3.5/3.1 V, bias 70/10/60/15 mA, TX 3.5/-8/0.5/-6 dBm, RX 3/-20/0/-18 dBm; measured 31.5 °C, 3.29 V, 30 mA, -2 dBm, -19 dBm.
	sfpDiagnostics = map[int]any{0: []uint16{75 << 8, 0xfb00, 70 << 8, 0}, 8: []uint16{36000, 30000, 35000, 31000}, 16: []uint16{35000, 5000, 30000, 7500},
		24: []uint16{22387, 1585, 11220, 2512}, 32: []uint16{19953, 100, 10000, 158}, 96: []uint16{31<<8 | 128, 32900, 15000, 6310, 126}}
)

func near(t *testing.T, what string, r *Reading, value float64, state State) {
	t.Helper()
	if r == nil || math.Abs(r.Value-value) > 0.02 || r.State != state {
		t.Errorf("%s: %+v, want %v %s", what, r, value, state)
	}
}

func TestSFP(t *testing.T) {
	o, err := ReadOptics(registers{{device, 0, 0}: page(sfpSerial), {diagnostic, 0, 0}: page(sfpDiagnostics)}.read)
	if err != nil || o.Form != "SFP" || o.Vendor != "ACME OPTICS" || o.Part != "SFP-10G-LR" || o.Serial != "A1B2C3" || !o.Monitored || len(o.Lanes) != 1 {
		t.Fatalf("%+v, %v", o, err)
	}
	near(t, "temperature", o.Temperature, 31.5, Fine)
	near(t, "voltage", o.Voltage, 3.29, Fine)
	near(t, "bias", o.Lanes[0].Bias, 30, Fine)
	near(t, "TX", o.Lanes[0].TX, -2, Fine)
	near(t, "RX", o.Lanes[0].RX, -19, Warning)
	if l := o.Temperature.LowAlarm; l == nil || *l != -5 {
		t.Errorf("limits below zero: %+v", o.Temperature)
	}
	dark := page(sfpDiagnostics)
	binary.BigEndian.PutUint16(dark[104:], 0)
	if o, err = ReadOptics(registers{{device, 0, 0}: page(sfpSerial), {diagnostic, 0, 0}: dark}.read); err != nil {
		t.Fatal(err)
	}
	near(t, "no light", o.Lanes[0].RX, darkness, Alarm)
}

// An externally calibrated module gives raw values and the line to put them on (SFF-8472, section 9.3).
func TestSFPExternallyCalibrated(t *testing.T) {
	serial := page(sfpSerial)
	serial[92] = 0x58
	b := page(sfpDiagnostics)
	for at, value := range map[int]any{
		56: []float32{0, 0, 0, 2, 6},                                       // RX: 2x+6
		76: []uint16{1 << 8, 0, 2 << 8, 0, 1 << 8, 0x0100, 1 << 8, 0xff9c}, // bias ×1, TX ×2, temperature +1 °C, voltage -10 mV
		96: []uint16{31<<8 | 128, 32900, 15000, 3155, 60},
	} {
		copy(b[at:], page(map[int]any{0: value})[:func() int {
			if f, ok := value.([]float32); ok {
				return 4 * len(f)
			}
			return 2 * len(value.([]uint16))
		}()])
	}
	o, err := ReadOptics(registers{{device, 0, 0}: serial, {diagnostic, 0, 0}: b}.read)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ got, want float64 }{"temperature": {o.Temperature.Value, 32.5}, "voltage": {o.Voltage.Value, 3.28},
		"bias": {o.Lanes[0].Bias.Value, 30}, "TX": {o.Lanes[0].TX.Value, -2}, "RX": {o.Lanes[0].RX.Value, -19}} {
		if math.Abs(c.got-c.want) > 0.02 {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}

func TestQSFP(t *testing.T) {
	low := page(map[int]any{0: 0x11, 22: []uint16{40 << 8}, 26: []uint16{33000}, 34: []uint16{5012, 5012, 25, 5012}, 42: []uint16{20000, 20000, 20000, 20000}, 50: []uint16{10000, 10000, 10000, 10000}})
	up := page(map[int]any{147 - 128: 0x40, 148 - 128: "ACME            ", 168 - 128: "QSFP28-LR4      ", 196 - 128: "Q7"})
	limits := page(map[int]any{0: []uint16{75 << 8, 0, 70 << 8, 5 << 8}, 144 - 128: []uint16{36000, 30000, 35000, 31000}, 176 - 128: []uint16{20000, 50, 15000, 100},
		184 - 128: []uint16{50000, 5000, 45000, 6000}, 192 - 128: []uint16{30000, 1000, 25000, 2000}})
	o, err := ReadOptics(registers{{device, 0, 0}: low, {device, 0, 128}: up, {device, 3, 128}: limits}.read)
	if err != nil || o.Form != "QSFP" || o.Part != "QSFP28-LR4" || len(o.Lanes) != 4 {
		t.Fatalf("%+v, %v", o, err)
	}
	near(t, "temperature", o.Temperature, 40, Fine)
	near(t, "bias", o.Lanes[1].Bias, 40, Fine)
	near(t, "TX", o.Lanes[3].TX, 0, Fine)
	near(t, "RX", o.Lanes[0].RX, -3, Fine)
	near(t, "RX of a dying lane", o.Lanes[2].RX, -26.02, Alarm)
	up[147-128] = 0xa0 // a copper cable
	if o, err := ReadOptics(registers{{device, 0, 0}: low, {device, 0, 128}: up}.read); err != nil || o.Monitored || len(o.Lanes) != 0 {
		t.Errorf("a cable: %+v, %v", o, err)
	}
}

func TestCMIS(t *testing.T) {
	low := page(map[int]any{0: 0x18, 14: []uint16{50 << 8}, 16: []uint16{33100}, 88: 0x84}) // 8 host lanes, 4 media lanes
	up := page(map[int]any{1: "ACME            ", 148 - 128: "400G-DR4        ", 166 - 128: "D4"})
	advertised := page(map[int]any{160 - 128: 1 << 3}) // current in units of 4 µA
	limits := page(map[int]any{0: []uint16{80 << 8, 0, 75 << 8, 0}, 8: []uint16{36000, 30000, 35000, 31000}, 176 - 128: []uint16{30000, 1000, 25000, 2000},
		184 - 128: []uint16{40000, 5000, 35000, 6000}, 192 - 128: []uint16{30000, 100, 25000, 200}})
	measured := page(map[int]any{154 - 128: []uint16{10000, 10000, 10000, 10000}, 170 - 128: []uint16{15000, 36000, 15000, 15000}, 186 - 128: []uint16{7943, 7943, 7943, 7943}})
	all := registers{{device, 0, 0}: low, {device, 0, 128}: up, {device, 1, 128}: advertised, {device, 2, 128}: limits, {device, 0x11, 128}: measured}
	o, err := ReadOptics(all.read)
	if err != nil || o.Form != "CMIS" || o.Vendor != "ACME" || o.Part != "400G-DR4" || len(o.Lanes) != 4 {
		t.Fatalf("%+v, %v", o, err)
	}
	near(t, "temperature", o.Temperature, 50, Fine)
	near(t, "bias", o.Lanes[0].Bias, 60, Fine)
	near(t, "bias above its limit", o.Lanes[1].Bias, 144, Warning)
	near(t, "TX", o.Lanes[0].TX, 0, Fine)
	near(t, "RX", o.Lanes[3].RX, -1, Fine)
	low[2] = 0x80
	if o, err := ReadOptics(all.read); err != nil || o.Monitored {
		t.Errorf("a cable: %+v, %v", o, err)
	}
}

// A module is a stranger: what it says is bounded, and none makes the router stumble.
func TestStrangers(t *testing.T) {
	if _, err := ReadOptics(registers{{device, 0, 0}: page(map[int]any{0: 0x7f})}.read); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
	if _, err := ReadOptics(registers{{device, 0, 0}: {3, 0}}.read); err == nil {
		t.Error("a short answer is taken")
	}
	if _, err := ReadOptics(registers{{device, 0, 0}: page(sfpSerial)}.read); !errors.Is(err, errRefused) {
		t.Errorf("no diagnostics: %v", err)
	}
	wild := page(sfpSerial)
	copy(wild[20:], "\x1b[2Jred\xff\xff")
	wild[92] = 0
	if o, err := ReadOptics(registers{{device, 0, 0}: wild}.read); err != nil || o.Vendor != "[2JredCS" {
		t.Errorf("%q, %v", o.Vendor, err)
	}
}
