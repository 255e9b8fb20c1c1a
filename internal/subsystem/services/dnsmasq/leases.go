// SPDX-License-Identifier: Apache-2.0

package dnsmasq

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"minne/internal/subsystem/services/program"
)

// Lease is an address that a host was given.
type Lease struct {
	Address netip.Addr `json:"address"`
	MAC     string     `json:"mac,omitempty"`  // IPv4
	DUID    string     `json:"duid,omitempty"` // IPv6 (RFC 8415, section 11)
	Name    string     `json:"name,omitempty"`
	Until   time.Time  `json:"until,omitzero"` // zero: for ever
	VRF     string     `json:"vrf,omitempty"`  // that the host is in
}

// Leases reads what was given, in the main table and in each VRF. Without a server there are none.
func (s *Daemon) Leases() (list []Lease, err error) {
	texts, err := s.LeaseTexts()
	for _, vrf := range slices.Sorted(maps.Keys(texts)) {
		for line := range strings.Lines(texts[vrf]) {
			if l, ok := readLease(line); ok {
				l.VRF = vrf
				list = append(list, l)
			}
		}
	}
	return list, err
}

// LeaseTexts are the files in which dnsmasq keeps its leases, by VRF; "" stands for the main table. Where there is no
// server, there is none.
func (s *Daemon) LeaseTexts() (map[string]string, error) {
	texts := map[string]string{}
	for _, vrf := range s.vrfs() {
		text, err := s.leaseText(vrf)
		if err != nil {
			return nil, err
		}
		if text != "" {
			texts[vrf] = text
		}
	}
	return texts, nil
}

func (s *Daemon) leaseText(vrf string) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.dir(vrf), leaseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// TakeLeases adds leases of another router's VRF, as its LeaseTexts gave them, and says how many. An address that is
// leased here already, and a lease whose time is up, is left out. dnsmasq reads its file only when it starts, so
// it begins anew.
func (s *Daemon) TakeLeases(ctx context.Context, vrf, text string, now time.Time) (taken int, err error) {
	if err := checkLeases(text); err != nil {
		return 0, err
	}
	p := s.Of(key(vrf))
	if p == nil {
		return 0, nil
	}
	err = p.Between(ctx, func() error {
		here, err := s.leaseText(vrf)
		if err != nil {
			return err
		}
		merged, n := merge(here, text, now)
		if n == 0 {
			return nil
		}
		taken = n
		return program.Replace(filepath.Join(s.dir(vrf), leaseFile), merged, 0o644)
	})
	return taken, err
}

// mostLeases bounds a file of leases: the addresses of a /16.
const mostLeases = 1 << 16

// checkLeases refuses a text that dnsmasq would not have written.
func checkLeases(text string) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		_, isLease := readLease(line)
		switch {
		case n > mostLeases:
			return fmt.Errorf("leases: expected at most %d", mostLeases)
		case strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < ' ' || r > '~' }) || len(line) > 1000:
			return fmt.Errorf("leases: line %d: expected printable characters, 1000 at most", n)
		case !isLease && !isDUID(line):
			return fmt.Errorf("leases: line %d: expected end, MAC, address, name, identifier", n)
		}
	}
	return nil
}

// isDUID says whether a line has the server's own identifier, behind which the leases of IPv6 stand.
func isDUID(line string) bool {
	f := strings.Fields(line)
	return len(f) == 2 && f[0] == "duid"
}

// merge adds to the leases here those of another router. Hosts know that one's DUID as their server's, so it
// goes along with them.
func merge(here, other string, now time.Time) (text string, taken int) {
	var four, six []string
	duid := ""
	leased := map[netip.Addr]bool{}
	keep := func(line string) (isNew bool) {
		l, ok := readLease(line)
		if !ok || leased[l.Address] || !l.Until.IsZero() && l.Until.Before(now) {
			return false
		}
		leased[l.Address] = true
		if l.Address.Is4() {
			four = append(four, strings.TrimSpace(line))
		} else {
			six = append(six, strings.TrimSpace(line))
		}
		return true
	}
	for line := range strings.Lines(here) {
		if keep(line); isDUID(line) {
			duid = strings.TrimSpace(line)
		}
	}
	for line := range strings.Lines(other) {
		if keep(line) {
			taken++
		}
		if isDUID(line) {
			duid = strings.TrimSpace(line)
		}
	}
	all := four
	if duid != "" {
		all = append(append(all, duid), six...)
	}
	return strings.Join(all, "\n") + "\n", taken
}

// readLease reads a line of dnsmasq's file: the end in seconds of 1970, MAC, address, name or *, client id. For IPv6 the
// identity association stands in the place of the MAC, and the DUID in that of the client id.
func readLease(line string) (l Lease, ok bool) {
	f := strings.Fields(line)
	if len(f) < 4 {
		return l, false
	}
	end, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		return l, false
	}
	if l.Address, err = netip.ParseAddr(f[2]); err != nil {
		return l, false
	}
	switch {
	case l.Address.Is4():
		l.MAC = f[1]
	case len(f) > 4 && f[4] != "*":
		l.DUID = f[4]
	}
	if end != 0 {
		l.Until = time.Unix(end, 0).UTC()
	}
	if f[3] != "*" {
		l.Name = f[3]
	}
	return l, true
}
