// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"minne/internal/subsystem/services/dhcpclient"
	"minne/internal/subsystem/services/dnsmasq"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
)

// ServicesView answers show services.
type ServicesView struct {
	Programs []program.State       `json:"programs"`         // those that the configuration asks for
	Leased   []dhcpclient.Observed `json:"leased,omitempty"` // by this router
}

// DHCPView answers show dhcp.
type DHCPView struct {
	Client []dhcpclient.Observed `json:"client,omitempty"` // what this router leased
	Given  []dnsmasq.Lease       `json:"given,omitempty"`  // what it gave to others
}

// Services prints the programs beside routing.
func Services(w io.Writer, v ServicesView) error {
	if len(v.Programs) == 0 {
		_, err := fmt.Fprintln(w, "no services are configured")
		return err
	}
	t := table{head: []string{"Service", "!State", ">PID", "~What"}}
	for _, p := range v.Programs {
		state, pid := "not running", "-"
		if p.Running {
			state, pid = "running", strconv.Itoa(p.PID)
		}
		what := p.Facts
		if p.Error != "" {
			what = []string{p.Error}
		}
		for _, o := range v.Leased {
			if o.Client.Name == p.Name {
				what = []string{leased(o)}
			}
		}
		if len(what) == 0 {
			what = []string{"-"}
		}
		t.row(p.Object, state, pid, strings.Join(what, "\n"))
	}
	return t.write(w)
}

// leased says in a few words what a DHCP server gave.
func leased(o dhcpclient.Observed) string {
	switch {
	case o.Refused != "":
		return "lease refused: " + o.Refused
	case o.Lease == nil:
		return "no lease yet"
	}
	return "has " + o.Lease.Address.String()
}

// ServiceTable prints the state of a service.
func ServiceTable(w io.Writer, t service.Table) error {
	if len(t.Rows) == 0 {
		_, err := fmt.Fprintln(w, t.Empty)
		return err
	}
	return (&table{head: t.Head, rows: t.Rows}).write(w)
}

// DHCP prints what this router leased, and what it gave to others.
func DHCP(w io.Writer, v DHCPView) error {
	for _, o := range v.Client {
		fmt.Fprintf(w, "%s: %s", o.Interface, leased(o))
		if l := o.Lease; l != nil {
			if l.Server.IsValid() {
				fmt.Fprintf(w, " of %s", l.Server)
			}
			if o.Left != "" {
				fmt.Fprintf(w, ", for another %s unless renewed", o.Left)
			}
			for _, r := range l.Routes {
				fmt.Fprintf(w, "\n  route %s", r)
			}
			for _, r := range l.Refused {
				fmt.Fprintf(w, "\n  refused route %s", r)
			}
			for _, a := range l.DNS {
				fmt.Fprintf(w, "\n  DNS server %s", a)
			}
		}
		fmt.Fprintln(w)
	}
	if len(v.Given) == 0 {
		_, err := fmt.Fprintln(w, "no addresses are given to others")
		return err
	}
	t := table{head: []string{"Address", "MAC or DUID", "Name", "Until"}}
	inVRFs := slices.ContainsFunc(v.Given, func(l dnsmasq.Lease) bool { return l.VRF != "" })
	if inVRFs {
		t.head = append(t.head, "VRF")
	}
	for _, l := range v.Given {
		until := "for ever"
		if !l.Until.IsZero() {
			until = l.Until.Local().Format(time.DateTime)
		}
		row := []string{l.Address.String(), cmp.Or(l.MAC, l.DUID), orDash(l.Name), until}
		if inVRFs {
			row = append(row, orDash(l.VRF))
		}
		t.row(row...)
	}
	return t.write(w)
}
