// SPDX-License-Identifier: Apache-2.0

package sensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
)

// Optics is what a pluggable module says of itself and measures (digital optical monitoring).
type Optics struct {
	Interface   string   `json:"interface"`
	Form        string   `json:"form"` // SFP, QSFP, CMIS: which specification its registers follow
	Vendor      string   `json:"vendor"`
	Part        string   `json:"part"`
	Serial      string   `json:"serial,omitempty"`
	Monitored   bool     `json:"monitored"`             // it measures; copper cables and simple modules don't
	Temperature *Reading `json:"temperature,omitempty"` // degrees Celsius
	Voltage     *Reading `json:"voltage,omitempty"`     // volts
	Lanes       []Lane   `json:"lanes"`
}

// Lane is one laser with its receiver.
type Lane struct {
	Bias *Reading `json:"bias"` // of the laser, mA
	TX   *Reading `json:"tx"`   // dBm
	RX   *Reading `json:"rx"`   // dBm
}

// Page reads 128 bytes of a module's registers: page 0 from offset 0 or 128, other pages from 128; device is the
// address on the module's bus (0x50, 0x51).
type Page func(device, page, offset byte) ([]byte, error)

// ErrUnknown is a module whose registers follow no specification that is known here.
var ErrUnknown = errors.New("unknown kind of module")

// ReadOptics reads a module.
func ReadOptics(read Page) (Optics, error) {
	low, err := half(read(device, 0, 0))
	if err != nil {
		return Optics{}, err
	}
	switch low[0] { // SFF-8024, table 4-1
	case 0x02, 0x03:
		return readSFP(low, read)
	case 0x0c, 0x0d, 0x11:
		return readQSFP(low, read)
	case 0x18, 0x19, 0x1e, 0x1f:
		return readCMIS(low, read)
	}
	return Optics{}, fmt.Errorf("%w (identifier 0x%02x)", ErrUnknown, low[0])
}

const (
	device     = 0x50
	diagnostic = 0x51 // of SFP (SFF-8472: A2h)
	pageSize   = 128  // bytes
)

// half checks the length of what was read.
func half(b []byte, err error) ([]byte, error) {
	if err == nil && len(b) < pageSize {
		err = fmt.Errorf("the module gave %d of %d bytes", len(b), pageSize)
	}
	return b, err
}

// text is a field of ASCII, filled with blanks; a module is a stranger.
func text(b []byte) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r > 126 || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, string(b)))
}

// Units of the registers, which all three specifications share: 1/256 degree (signed), 100 µV, 2 µA, 0.1 µW.
func celsius(b []byte) float64 { return rounded(float64(int16(binary.BigEndian.Uint16(b))) / 256) }
func volts(b []byte) float64   { return rounded(float64(binary.BigEndian.Uint16(b)) / 1e4) }
func milliamperes(b []byte) float64 {
	return rounded(float64(binary.BigEndian.Uint16(b)) * 2 / 1e3)
}
func power(b []byte) float64 { return dBm(float64(binary.BigEndian.Uint16(b)) / 10) }

// darkness is what no light is called, dBm; the least that a register can say is 0.1 µW.
const darkness = -40

func dBm(microwatts float64) float64 {
	if microwatts < 0.1 {
		return darkness
	}
	return math.Round(100*10*math.Log10(microwatts/1000)) / 100
}

// limits are four registers behind each other: high alarm, low alarm, high warning, low warning. Four zeros are none.
func limits(b []byte, unit func([]byte) float64) (l Limits) {
	if binary.BigEndian.Uint64(b) == 0 {
		return l
	}
	for i, at := range []**float64{&l.HighAlarm, &l.LowAlarm, &l.HighWarning, &l.LowWarning} {
		value := unit(b[2*i : 2*i+2])
		*at = &value
	}
	return l
}

// readSFP reads SFF-8472.
func readSFP(low []byte, read Page) (Optics, error) {
	o := Optics{Form: "SFP", Vendor: text(low[20:36]), Part: text(low[40:56]), Serial: text(low[68:84]), Lanes: []Lane{}}
	const kinds, implemented, otherAddress, external = 92, 1 << 6, 1 << 2, 1 << 4 // table 8-5
	if low[kinds]&implemented == 0 || low[kinds]&otherAddress != 0 {
		return o, nil
	}
	b, err := half(read(diagnostic, 0, 0))
	if err != nil {
		return o, err
	}
	o.Monitored = true
	temperature, voltage, bias, tx, rx := celsius, volts, milliamperes, power, power
	if low[kinds]&external != 0 { // section 9.3: what is measured is multiplied and shifted
		scaled := func(at int, signed bool, unit func(float64) float64) func([]byte) float64 {
			slope, offset := float64(binary.BigEndian.Uint16(b[at:]))/256, float64(int16(binary.BigEndian.Uint16(b[at+2:])))
			return func(raw []byte) float64 {
				value := float64(binary.BigEndian.Uint16(raw))
				if signed {
					value = float64(int16(binary.BigEndian.Uint16(raw)))
				}
				return unit(slope*value + offset)
			}
		}
		bias = scaled(76, false, func(v float64) float64 { return rounded(v * 2 / 1e3) })
		tx = scaled(80, false, func(v float64) float64 { return dBm(v / 10) })
		temperature = scaled(84, true, func(v float64) float64 { return rounded(v / 256) })
		voltage = scaled(88, false, func(v float64) float64 { return rounded(v / 1e4) })
		rx = func(raw []byte) float64 {
			value, x := 0.0, float64(binary.BigEndian.Uint16(raw))
			for at := 56; at <= 72; at += 4 { // the coefficients of x⁴ to x⁰
				value = value*x + float64(math.Float32frombits(binary.BigEndian.Uint32(b[at:])))
			}
			return dBm(value / 10)
		}
	}
	o.Temperature = reading(temperature(b[96:]), limits(b[0:], temperature))
	o.Voltage = reading(voltage(b[98:]), limits(b[8:], voltage))
	o.Lanes = []Lane{{Bias: reading(bias(b[100:]), limits(b[16:], bias)), TX: reading(tx(b[102:]), limits(b[24:], tx)), RX: reading(rx(b[104:]), limits(b[32:], rx))}}
	return o, nil
}

// lanes reads so many lanes; each kind of register has its lanes behind each other.
func lanes(n int, rx, bias, tx []byte, rxLimits, biasLimits, txLimits Limits, current func([]byte) float64) (list []Lane) {
	for i := range n {
		list = append(list, Lane{Bias: reading(current(bias[2*i:]), biasLimits), TX: reading(power(tx[2*i:]), txLimits), RX: reading(power(rx[2*i:]), rxLimits)})
	}
	return list
}

// readQSFP reads SFF-8636. Offsets are those of the specification; pages begin at 128.
func readQSFP(low []byte, read Page) (Optics, error) {
	up, err := half(read(device, 0, pageSize))
	if err != nil {
		return Optics{}, err
	}
	o := Optics{Form: "QSFP", Vendor: text(up[148-128 : 164-128]), Part: text(up[168-128 : 184-128]), Serial: text(up[196-128 : 212-128]), Lanes: []Lane{}}
	const technology, copper = 147 - 128, 0x0a // table 6-18: from here on the transmitter is a cable
	if up[technology]>>4 >= copper {
		return o, nil
	}
	o.Monitored = true
	var t [5]Limits
	const flat = 1 << 2 // of byte 2: there is only page 0
	if low[2]&flat == 0 {
		b, err := half(read(device, 3, pageSize))
		if err != nil {
			return o, err
		}
		t = [5]Limits{limits(b[0:], celsius), limits(b[144-128:], volts), limits(b[176-128:], power), limits(b[184-128:], milliamperes), limits(b[192-128:], power)}
	}
	o.Temperature, o.Voltage = reading(celsius(low[22:]), t[0]), reading(volts(low[26:]), t[1])
	o.Lanes = lanes(4, low[34:], low[42:], low[50:], t[2], t[3], t[4], milliamperes)
	return o, nil
}

// readCMIS reads the Common Management Interface Specification (QSFP-DD, OSFP, QSFP with CMIS).
func readCMIS(low []byte, read Page) (Optics, error) {
	up, err := half(read(device, 0, pageSize))
	if err != nil {
		return Optics{}, err
	}
	o := Optics{Form: "CMIS", Vendor: text(up[129-128 : 145-128]), Part: text(up[148-128 : 164-128]), Serial: text(up[166-128 : 182-128]), Lanes: []Lane{}}
	const flat = 1 << 7 // of byte 2: no other pages, as in cables
	if low[2]&flat != 0 {
		return o, nil
	}
	o.Monitored = true
	advertised, err := half(read(device, 1, pageSize))
	if err != nil {
		return o, err
	}
	thresholds, err := half(read(device, 2, pageSize))
	if err != nil {
		return o, err
	}
	measured, err := half(read(device, 0x11, pageSize))
	if err != nil {
		return o, err
	}
	multiplier := float64(int(1) << (advertised[160-128] >> 3 & 3)) // of the laser's current: 1, 2, 4
	current := func(b []byte) float64 { return rounded(multiplier * milliamperes(b)) }
	o.Temperature = reading(celsius(low[14:]), limits(thresholds[0:], celsius))
	o.Voltage = reading(volts(low[16:]), limits(thresholds[136-128:], volts))
	n := min(max(int(low[88]&0x0f), 1), 8) // media lanes of the first application
	o.Lanes = lanes(n, measured[186-128:], measured[170-128:], measured[154-128:],
		limits(thresholds[192-128:], power), limits(thresholds[184-128:], current), limits(thresholds[176-128:], power), current)
	return o, nil
}

// Wrong says in words what of a lane, and for the first of the whole module, is not within its limits.
func (o Optics) Wrong(lane int) (list []string) {
	add := func(what, unit string, r *Reading) {
		if r != nil && r.State != Fine {
			list = append(list, fmt.Sprintf("%s: %s %v %s", r.State, what, r.Value, unit))
		}
	}
	if lane == 0 {
		add("temperature", "°C", o.Temperature)
		add("voltage", "V", o.Voltage)
	}
	l := o.Lanes[lane]
	add("bias", "mA", l.Bias)
	add("TX", "dBm", l.TX)
	add("RX", "dBm", l.RX)
	return list
}
