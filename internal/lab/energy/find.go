// SPDX-License-Identifier: Apache-2.0

package energy

import (
	"fmt"
	"io/fs"
	"strings"
)

// Found is what a machine has to measure power with.
type Found struct {
	Sources []Source // those that contain most of the machine first
	Refused []string // what is there but can't be used, with the reason
}

// Find looks for sources under a root directory, os.DirFS("/") but for tests.
func Find(root fs.FS) Found {
	var f Found
	add := func(found []Source, refused []string) {
		f.Sources = append(f.Sources, found...)
		f.Refused = append(f.Refused, refused...)
	}
	add(findBattery(root))
	add(findRAPL(root))
	add(findHwmon(root))
	return f
}

// Choose returns the source whose name contains the given text, regardless of
// case; for an empty text the first. Where there is none at all it returns a
// source that says so in results.
func (f Found) Choose(name string) (Source, error) {
	if len(f.Sources) == 0 && name == "" {
		return f.none(), nil
	}
	var match []Source
	var all []string
	for _, s := range f.Sources {
		all = append(all, fmt.Sprintf("%q", s.Name()))
		if strings.EqualFold(s.Name(), name) {
			return s, nil
		}
		if strings.Contains(strings.ToLower(s.Name()), strings.ToLower(name)) {
			match = append(match, s)
		}
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("no power source %q: %s", name, f.none().Missing())
	case len(match) == 0:
		return nil, fmt.Errorf("no power source %q; there are %s", name, strings.Join(all, ", "))
	case len(match) > 1 && name != "":
		return nil, fmt.Errorf("power source %q may be %q or %q: give more of its name", name, match[0].Name(), match[1].Name())
	}
	return match[0], nil
}

func (f Found) none() none {
	why := "no RAPL, no power sensor (hwmon), no battery"
	if len(f.Refused) > 0 {
		why = strings.Join(f.Refused, "; ")
	}
	return none{why}
}

// Missing says why there is no source, and is empty when there is one.
func (f Found) Missing() string {
	if len(f.Sources) > 0 {
		return ""
	}
	return f.none().Missing()
}
