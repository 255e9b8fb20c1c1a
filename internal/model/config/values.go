// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// This file reads and writes the text forms of the scalar types. Reading is
// strict: one spelling per meaning, apart from forms that operators really use
// (asdot, an area as a number, MAC addresses with dashes), so that a value
// always means what it seems to mean. Writing gives the form that reads back to
// the same value.

// wrongValue is an unreadable value: what is wrong, what was expected, and the
// nearest right value when one is obvious. The decoder adds the place.
type wrongValue struct {
	message  string
	expected string
	nearest  string
}

func (w *wrongValue) Error() string {
	text := w.message
	if w.expected != "" {
		text += "; expected " + w.expected
	}
	if w.nearest != "" {
		text += "; did you mean " + w.nearest + "?"
	}
	return text
}

// errTooBig is what decimal says of a number beyond the limit.
var errTooBig = errors.New("is too big")

// decimal reads digits without sign, leading zero, underscore or other base, up to limit.
func decimal(text string, limit uint64) (uint64, error) {
	if text == "" {
		return 0, errors.New("is empty")
	}
	for _, r := range text {
		if r < '0' || r > '9' {
			return 0, errors.New("is not a whole number")
		}
	}
	if len(text) > 1 && text[0] == '0' {
		return 0, errors.New("has leading zeros, which some programs read as octal")
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > limit {
		return 0, errTooBig
	}
	return n, nil
}

// trimZeros returns text without leading zeros when it consists of digits, else "".
func trimZeros(text string) string {
	if strings.Trim(text, "0123456789") != "" || !strings.HasPrefix(text, "0") {
		return ""
	}
	if text = strings.TrimLeft(text, "0"); text == "" {
		return "0"
	}
	return text
}

const asnForm = "an AS number from 1 to 4294967294, as 64500 or as asdot 1.10"

// UnmarshalText reads 64500 or 1.10.
func (a *ASN) UnmarshalText(b []byte) error {
	text := string(b)
	bare := strings.TrimPrefix(strings.TrimPrefix(text, "AS"), "as")
	high, low, dotted := strings.Cut(bare, ".")
	var n uint64
	var err error
	if dotted {
		var h, l uint64
		if h, err = decimal(high, math.MaxUint16); err == nil {
			l, err = decimal(low, math.MaxUint16)
		}
		n = h<<16 | l
	} else {
		n, err = decimal(bare, math.MaxUint32)
	}
	if err != nil {
		return &wrongValue{fmt.Sprintf("AS number %q %v", text, err), asnForm, trimZeros(bare)}
	}
	if bare != text {
		return &wrongValue{fmt.Sprintf("AS number %q has letters in front", text), asnForm, bare}
	}
	*a = ASN(n)
	return nil
}

// String returns the plain form, as FRR prints it.
func (a ASN) String() string { return strconv.FormatUint(uint64(a), 10) }

// MarshalText returns the plain form.
func (a ASN) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// MarshalJSON returns a JSON number.
func (a ASN) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalJSON reads a JSON number or a string in any of the text forms.
func (a *ASN) UnmarshalJSON(b []byte) error {
	return a.UnmarshalText([]byte(strings.Trim(string(b), `"`)))
}

const areaForm = "an area id as a number (0) or a dotted quad (0.0.0.0)"

// UnmarshalText reads 0 or 0.0.0.0.
func (a *AreaID) UnmarshalText(b []byte) error {
	text := string(b)
	if strings.Contains(text, ".") {
		quad, err := netip.ParseAddr(text)
		if err != nil || !quad.Is4() {
			return &wrongValue{fmt.Sprintf("area %q is not a dotted quad", text), areaForm, ""}
		}
		q := quad.As4()
		*a = AreaID(q[0])<<24 | AreaID(q[1])<<16 | AreaID(q[2])<<8 | AreaID(q[3])
		return nil
	}
	n, err := decimal(text, math.MaxUint32)
	if err != nil {
		return &wrongValue{fmt.Sprintf("area %q %v", text, err), areaForm, trimZeros(text)}
	}
	*a = AreaID(n)
	return nil
}

// String returns the dotted quad.
func (a AreaID) String() string {
	return fmt.Sprintf("%d.%d.%d.%d", byte(a>>24), byte(a>>16), byte(a>>8), byte(a))
}

// MarshalText returns the dotted quad.
func (a AreaID) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

const macForm = "a MAC address as 52:54:00:12:34:56"

// UnmarshalText reads six pairs of hexadecimal digits with colons or dashes between.
func (m *MAC) UnmarshalText(b []byte) error {
	text := string(b)
	if text == "" { // JSON of an absent address
		*m = MAC{}
		return nil
	}
	wrong := &wrongValue{fmt.Sprintf("%q is not a MAC address", text), macForm, ""}
	pairs := strings.Split(strings.ReplaceAll(text, "-", ":"), ":")
	if len(pairs) != len(m) || strings.Contains(text, ":") && strings.Contains(text, "-") {
		return wrong
	}
	var mac MAC
	for i, pair := range pairs {
		n, err := strconv.ParseUint(pair, 16, 8)
		if err != nil || len(pair) != 2 {
			return wrong
		}
		mac[i] = byte(n)
	}
	switch {
	case mac == MAC{}:
		return &wrongValue{"the MAC address of all zeros belongs to no link", macForm, ""}
	case mac[0]&1 == 1:
		return &wrongValue{fmt.Sprintf("%q is a group address (multicast or broadcast), no link has it", text), macForm, ""}
	}
	*m = mac
	return nil
}

// IsZero reports whether there is no address.
func (m MAC) IsZero() bool { return m == MAC{} }

// String returns the address in lower case with colons, or "" for none.
func (m MAC) String() string {
	if m.IsZero() {
		return ""
	}
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// MarshalText returns the String form.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// durationUnits are the units of a Duration, the longest first.
var durationUnits = []struct {
	name string
	span time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

const durationForm = "a time with its unit: 300ms, 90s, 10m, 2h or 1d"

// UnmarshalText reads numbers with units, the longest unit first: 90s, 1h30m.
func (d *Duration) UnmarshalText(b []byte) error {
	text := string(b)
	wrong := &wrongValue{fmt.Sprintf("%q is not a time", text), durationForm, ""}
	if _, err := decimal(text, math.MaxInt32); err == nil {
		wrong.message, wrong.nearest = fmt.Sprintf("time %s has no unit", text), text+"s"
		return wrong
	}
	var sum time.Duration
	rest, unit := text, -1
	for rest != "" {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		rest = rest[len(digits):]
		name := rest[:len(rest)-len(strings.TrimLeft(rest, "dhms"))]
		rest = rest[len(name):]
		next := unit + 1
		for next < len(durationUnits) && durationUnits[next].name != name {
			next++
		}
		n, err := decimal(digits, math.MaxInt32)
		if err != nil || next == len(durationUnits) || n > uint64(math.MaxInt64-sum)/uint64(durationUnits[next].span) {
			return wrong
		}
		unit = next
		sum += time.Duration(n) * durationUnits[next].span
	}
	if text == "" {
		return wrong
	}
	*d = Duration(sum)
	return nil
}

// String returns the time with the fewest units: 90s, 10m, 300ms. A time that is no
// whole number of milliseconds can't be written in the file and is rounded down.
func (d Duration) String() string {
	span := time.Duration(d)
	if span < time.Millisecond {
		return "0s"
	}
	for _, u := range durationUnits {
		if span%u.span == 0 {
			return strconv.FormatInt(int64(span/u.span), 10) + u.name
		}
	}
	return strconv.FormatInt(span.Milliseconds(), 10) + "ms"
}

// Std returns the standard library's form.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Seconds returns the whole seconds, rounded up.
func (d Duration) Seconds() int { return int((time.Duration(d) + time.Second - 1) / time.Second) }

// MarshalText returns the String form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// rateUnits are the units of a Rate, the biggest first.
var rateUnits = []struct {
	name string
	bits uint64
}{{"Tbit", 1e12}, {"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

const rateForm = "a speed with its unit: 64kbit, 100Mbit, 2.5Gbit"

// UnmarshalText reads a number with up to three decimals and a unit: 100Mbit, 2.5Gbit.
func (r *Rate) UnmarshalText(b []byte) error {
	text := string(b)
	wrong := &wrongValue{fmt.Sprintf("%q is not a speed", text), rateForm, ""}
	number := text[:len(text)-len(strings.TrimLeft(text, "0123456789."))]
	name := strings.TrimSpace(text[len(number):])
	for _, u := range rateUnits {
		if !strings.EqualFold(u.name, name) {
			if short, _, _ := strings.Cut(u.name, "bit"); short != "" && (strings.EqualFold(short, name) ||
				strings.EqualFold(short+"bps", name) || strings.EqualFold(short+"bit/s", name)) {
				wrong.nearest = number + u.name
			}
			continue
		}
		whole, fraction, dotted := strings.Cut(number, ".")
		n, err := decimal(whole, math.MaxUint64/u.bits)
		if err != nil || dotted && (fraction == "" || len(fraction) > 3 || strings.Contains(fraction, ".")) {
			return wrong
		}
		thousandths, err := strconv.ParseUint((fraction + "000")[:3], 10, 64)
		if err != nil || dotted && thousandths > 0 && u.bits < 1000 {
			return wrong
		}
		sum := n*u.bits + thousandths*(u.bits/1000)
		if sum == 0 || sum < n*u.bits {
			return wrong
		}
		*r = Rate(sum)
		return nil
	}
	if name == "" && number != "" {
		wrong.message, wrong.nearest = fmt.Sprintf("speed %s has no unit", text), ""
	}
	return wrong
}

// String returns the rate with the biggest unit that leaves it whole: 100Mbit.
func (r Rate) String() string {
	for _, u := range rateUnits {
		if r != 0 && uint64(r)%u.bits == 0 {
			return strconv.FormatUint(uint64(r)/u.bits, 10) + u.name
		}
	}
	return "0bit"
}

// MarshalText returns the String form.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// switchForm is how all switches are written, those too that are Go's bool.
const switchForm = "on or off"

// readSwitch reads on or off, also true or false, yes or no.
func readSwitch(text string) (on bool, _ error) {
	switch text {
	case "on", "true", "yes":
		return true, nil
	case "off", "false", "no":
		return false, nil
	}
	return false, &wrongValue{fmt.Sprintf("%q is not on or off", abridge(text)), switchForm, switchWord(text)}
}

// UnmarshalText reads a switch.
func (o *OnOff) UnmarshalText(b []byte) error {
	on, err := readSwitch(string(b))
	if err == nil {
		*o = OnOff(on)
	}
	return err
}

// String returns on or off.
func (o OnOff) String() string {
	if o {
		return "on"
	}
	return "off"
}

// MarshalText returns on or off.
func (o OnOff) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// switchWord guesses what was meant by another word for a switch.
func switchWord(text string) string {
	switch strings.ToLower(text) {
	case "on", "yes", "y", "true", "enable", "enabled", "1":
		return "on"
	case "off", "no", "n", "false", "disable", "disabled", "0":
		return "off"
	}
	return ""
}
