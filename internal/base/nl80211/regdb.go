// SPDX-License-Identifier: Apache-2.0

package nl80211

import (
	"encoding/binary"
	"errors"
	"os"
)

// The database of what countries allow (regulatory.db of wireless-regdb), which the kernel reads as well: it
// says before anything is changed whether a channel can be used. Numbers are big endian, frequencies in kHz, and
// places count in words of four bytes.
//
//	header:     magic "RGDB", version 20, then entries of countries: two letters and the place (16 bits) of a collection; zeros end them
//	collection: length, number of rules, DFS region, one byte each; then, at the length rounded up to two, the places of the rules
//	rule:       length, flags, highest power (16 bits, 0.01 dBm), first and last frequency, widest channel (32 bits each)
const (
	dbMagic   = 0x52474442
	dbVersion = 20

	flagDFS    = 1 << 2
	flagNoIR   = 1 << 3
	flagAutoBW = 1 << 4

	mostDB = 1 << 20
)

// databases are where Debian has the file: the first one is an alternative that points to one of the others.
var databases = []string{"/lib/firmware/regulatory.db", "/lib/firmware/regulatory.db-debian", "/lib/firmware/regulatory.db-upstream"}

// ErrCountry is a country of which the database knows nothing.
var ErrCountry = errors.New("no such country in the database of radio rules")

// ErrDatabase says that the file is none.
var ErrDatabase = errors.New("the database of radio rules is damaged")

// Rule is what a country allows between two frequencies.
type Rule struct {
	First, Last, Widest int  // kHz
	Power               int  // dBm
	Radar, NoIR, Wide   bool // Wide: neighbouring rules can be taken together
}

// Country reads what a country allows. The error wraps fs.ErrNotExist where there is no database.
func Country(code string) ([]Rule, error) {
	var missing error
	for _, path := range databases {
		b, err := os.ReadFile(path)
		if err == nil {
			return countryOf(b, code)
		}
		missing = err
	}
	return nil, missing
}

// countryOf reads a country's rules from the content of the file.
func countryOf(b []byte, code string) ([]Rule, error) {
	be := binary.BigEndian
	if len(b) < 8 || len(b) > mostDB || be.Uint32(b) != dbMagic || be.Uint32(b[4:]) != dbVersion || len(code) != 2 {
		return nil, ErrDatabase
	}
	for at := 8; at+4 <= len(b) && b[at] != 0; at += 4 {
		if string(b[at:at+2]) != code {
			continue
		}
		from := 4 * int(be.Uint16(b[at+2:]))
		if from+3 > len(b) {
			return nil, ErrDatabase
		}
		places, count := from+(int(b[from])+1)&^1, int(b[from+1])
		var list []Rule
		for n := range count {
			if places+2*n+2 > len(b) {
				return nil, ErrDatabase
			}
			r := 4 * int(be.Uint16(b[places+2*n:]))
			if r+16 > len(b) {
				return nil, ErrDatabase
			}
			flags := b[r+1]
			list = append(list, Rule{
				First: int(be.Uint32(b[r+4:])), Last: int(be.Uint32(b[r+8:])), Widest: int(be.Uint32(b[r+12:])), Power: int(be.Uint16(b[r+2:])) / 100,
				Radar: flags&flagDFS != 0, NoIR: flags&flagNoIR != 0, Wide: flags&flagAutoBW != 0,
			})
		}
		return list, nil
	}
	return nil, ErrCountry
}

// Allows says whether a radio may begin to send on a channel of 20 MHz around a frequency, as a part of one that is so many
// MHz wide, and whether it has to listen for radars there.
func Allows(rules []Rule, mhz, width int) (ok, radar bool) {
	for _, r := range rules {
		if r.First <= (mhz-10)*1000 && r.Last >= (mhz+10)*1000 && !r.NoIR && (r.Widest >= width*1000 || r.Wide) {
			return true, r.Radar
		}
	}
	return false, false
}
