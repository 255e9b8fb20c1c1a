// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"minne/internal/daemon/show"
	"minne/internal/lab/drivers"
	"minne/internal/lab/ports"
)

// driversAnswer is "minne show fast-path --drivers" for programs.
type driversAnswer struct {
	Ports   []driverPort      `json:"ports"`   // of this machine
	Drivers []driverRow       `json:"drivers"` // with native XDP
	Without map[string]string `json:"without"` // frequent ones that have none, with their hardware
	Kernel  string            `json:"kernel"`  // whose sources the table was read from
	Sources []drivers.Source  `json:"sources"`
}

// driverPort is a port of this machine: what the kernel itself says of it, now.
type driverPort struct {
	Port       string `json:"port"`
	Driver     string `json:"driver"`
	Listed     bool   `json:"listed"`            // the table has the driver
	Known      bool   `json:"known"`             // the kernel told (Linux 6.3)
	Native     bool   `json:"native"`            // the rest is its answer
	Redirect   bool   `json:"redirect"`          //
	Transmit   bool   `json:"transmit"`          // at this moment
	Frags      bool   `json:"frags"`             //
	ZeroCopy   bool   `json:"zero_copy"`         //
	TagHint    bool   `json:"vlan_hint"`         //
	StripsTags bool   `json:"strips_vlan_tags"`  // at this moment
	Queues     int    `json:"queues,omitempty"`  // for receiving, in use
	Program    string `json:"program,omitempty"` // native, generic … : a program is on it
}

type driverRow struct {
	drivers.Driver
	Use drivers.Use `json:"fast_path"`
	Why string      `json:"why,omitempty"`
}

// showDrivers prints what drivers can do for XDP; it needs no daemon.
func (a *app) showDrivers(asJSON bool) error {
	facts, err := ports.All()
	if err != nil {
		return err
	}
	answer := driversAnswer{Ports: []driverPort{}, Without: drivers.Generic(), Kernel: drivers.Kernel, Sources: drivers.Sources()}
	for _, f := range facts {
		answer.Ports = append(answer.Ports, newDriverPort(f))
	}
	for _, d := range drivers.All() {
		use, why := d.Use()
		answer.Drivers = append(answer.Drivers, driverRow{d, use, why})
	}
	if asJSON {
		return a.printJSON(answer)
	}
	screen := a.screen()
	return errors.Join(answer.print(screen), screen.Flush())
}

func newDriverPort(f ports.Facts) driverPort {
	p := driverPort{
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

func (d driversAnswer) print(w io.Writer) error {
	fmt.Fprintln(w, "This machine's ports, by the kernel's own word")
	ports := show.NewTable("Port", "Driver", "Native", "Redirect", "Transmit", "Frags", "Zero copy", "VLAN tags", "Queues", "Program")
	for _, p := range d.Ports {
		ports.Row(p.cells()...)
	}
	if len(d.Ports) == 0 {
		fmt.Fprintln(w, "none")
	} else if err := ports.Write(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nDrivers with native XDP in Linux %s\n", d.Kernel)
	list := show.NewTable("Driver", "Since", "~Fast path", "Redirect", "~Transmit", "Frags", "Zero copy", "VLAN tags", "~Hardware")
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
	others := show.NewTable("Driver", "~Hardware")
	for _, name := range slices.Sorted(maps.Keys(d.Without)) {
		others.Row(name, d.Without[name])
	}
	if err := others.Write(w); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nWhere this comes from")
	for _, s := range d.Sources {
		fmt.Fprintf(w, "%s: %s\n", s.Column, s.From)
	}
	return nil
}

// cells are the columns of a port. Where the kernel does not tell what the driver can do, they say so.
func (p driverPort) cells() []string {
	told := func(can bool) string {
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
		p.Port, cmp.Or(p.Driver, "?"), told(p.Native), told(p.Redirect), told(p.Transmit), told(p.Frags), told(p.ZeroCopy),
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
