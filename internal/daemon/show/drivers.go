// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"minne/internal/model/drivers"
	"minne/internal/subsystem/ports"
)

// DriversView answers show fast-path drivers.
type DriversView struct {
	Ports   []DriverPort      `json:"ports"`   // of this machine
	Drivers []DriverRow       `json:"drivers"` // with native XDP
	Without map[string]string `json:"without"` // frequent ones that have none, with their hardware
	Kernel  string            `json:"kernel"`  // whose sources the table was read from
	Sources []drivers.Source  `json:"sources"`
}

// DriverPort is a port of this machine, as the kernel reports it now.
type DriverPort struct {
	Port       string `json:"port"`
	Driver     string `json:"driver"`
	Listed     bool   `json:"listed"`            // the table has the driver
	Known      bool   `json:"known"`             // the kernel reports the rest (Linux 6.3)
	Native     bool   `json:"native"`            // runs programs in the driver
	Redirect   bool   `json:"redirect"`          //
	Transmit   bool   `json:"transmit"`          // at this moment
	Frags      bool   `json:"frags"`             //
	ZeroCopy   bool   `json:"zero_copy"`         //
	TagHint    bool   `json:"vlan_hint"`         //
	StripsTags bool   `json:"strips_vlan_tags"`  // at this moment
	Queues     int    `json:"queues,omitempty"`  // for receiving, in use
	Program    string `json:"program,omitempty"` // native, generic … : a program is on it
}

// DriverRow is a driver of Linux, and of what use it is to the fast path.
type DriverRow struct {
	drivers.Driver
	Use drivers.Use `json:"fast_path"`
	Why string      `json:"why,omitempty"`
}

// NewDriverPort is a port as the view has it.
func NewDriverPort(f ports.Facts) DriverPort {
	p := DriverPort{
		Port: f.Name, Driver: cmp.Or(f.Driver, f.Kind), Known: f.XDP.Known, Native: f.XDP.Native, Redirect: f.XDP.Redirect,
		Transmit: f.XDP.Transmit, Frags: f.XDP.Frags, ZeroCopy: f.XDP.ZeroCopy, TagHint: f.XDP.TagHint,
		StripsTags: f.StripsTags, Queues: f.Queues.Receive,
	}
	_, p.Listed = drivers.Find(p.Driver)
	if f.Program != nil {
		p.Program = f.Program.Mode
	}
	return p
}

// Drivers prints what drivers can do for XDP.
func Drivers(w io.Writer, d DriversView) error {
	fmt.Fprintln(w, "This machine's ports, as the kernel reports them")
	ports := NewTable("Port", "Driver", "Native", "Redirect", "Transmit", "Frags", "Zero copy", "VLAN tags", "Queues", "Program")
	for _, p := range d.Ports {
		ports.Row(p.cells()...)
	}
	if len(d.Ports) == 0 {
		fmt.Fprintln(w, "none")
	} else if err := ports.Write(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nDrivers with native XDP in Linux %s\n", d.Kernel)
	list := NewTable("Driver", "Since", "~Fast path", "Redirect", "~Transmit", "Frags", "Zero copy", "VLAN tags", "~Hardware")
	for _, r := range d.Drivers {
		use := string(r.Use)
		if r.Why != "" {
			use += ": " + r.Why
		}
		hardware := r.Hardware
		if r.Remark != "" {
			hardware += " (" + r.Remark + ")"
		}
		list.Row(r.Name, cmp.Or(r.Since, "?"), use, yes(r.Redirect), string(r.Transmit), yes(r.Frags), yes(r.ZeroCopy), tags(string(r.Tags), r.TagHint), hardware)
	}
	if err := list.Write(w); err != nil {
		return err
	}
	fmt.Fprint(w, "\nEvery other driver of Linux runs programs in generic mode only. Frequent ones are:\n")
	others := NewTable("Driver", "~Hardware")
	for _, name := range slices.Sorted(maps.Keys(d.Without)) {
		others.Row(name, d.Without[name])
	}
	if err := others.Write(w); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nSources")
	for _, s := range d.Sources {
		fmt.Fprintf(w, "%s: %s\n", s.Column, s.From)
	}
	return nil
}

// cells are the columns of a port. ? stands where the kernel does not report what the driver can do.
func (p DriverPort) cells() []string {
	known := func(can bool) string {
		if !p.Known {
			return "?"
		}
		return yes(can)
	}
	tag := "kept"
	if p.StripsTags {
		tag = "stripped now"
	}
	queues := "?"
	if p.Queues > 0 {
		queues = fmt.Sprint(p.Queues)
	}
	return []string{
		p.Port, cmp.Or(p.Driver, "?"), known(p.Native), known(p.Redirect), known(p.Transmit), known(p.Frags), known(p.ZeroCopy),
		tags(tag, p.TagHint), queues, cmp.Or(p.Program, "-"),
	}
}

func tags(text string, hint bool) string {
	if hint {
		return text + ", hint"
	}
	return text
}

func yes(can bool) string {
	if can {
		return "yes"
	}
	return "no"
}
