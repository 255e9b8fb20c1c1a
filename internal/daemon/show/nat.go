// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"

	"minne/internal/subsystem/firewall"
	"minne/internal/subsystem/flows"
)

// NATView answers show nat.
type NATView struct {
	On      bool                    `json:"on"` // there is a policy
	Problem string                  `json:"problem,omitempty"`
	Rules   []firewall.ObservedRule `json:"rules"` // counts are of connections that began
	Now     flows.Translations      `json:"now"`
}

// NAT prints the rules that translate, then the connections that are translated now.
func NAT(w io.Writer, v NATView) error {
	switch {
	case v.Problem != "":
		fmt.Fprintln(w, "NAT: "+v.Problem)
	case !v.On || len(v.Rules) == 0:
		fmt.Fprintln(w, "NAT: off, no address is translated (there is no section nat in the configuration)")
	default:
		fmt.Fprintln(w, "NAT rules and the connections that they have translated")
		t := table{head: []string{">No.", ">Connections", "~Rule"}}
		for _, r := range v.Rules {
			t.row(fmt.Sprint(r.ID), count(r.Packets), r.Text)
		}
		if err := t.write(w); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nNow: %s connections, %s with source NAT, %s with destination NAT\n",
		count(v.Now.Connections), count(v.Now.Source), count(v.Now.Destination))
	if len(v.Now.Outside) > 0 {
		t := table{head: []string{"Translated source", ">Connections", ">Inside hosts", "VRF"}}
		for _, o := range v.Now.Outside {
			t.row(o.Address.String(), count(o.Connections), count(o.Hosts), orDash(o.VRF))
		}
		t.ifAny("VRF")
		fmt.Fprintln(w)
		if err := t.write(w); err != nil {
			return err
		}
	}
	if len(v.Now.Forwarded) == 0 {
		return nil
	}
	t := table{head: []string{"Proto", "Destination", "Translated to", ">Connections", "VRF"}}
	for _, f := range v.Now.Forwarded {
		t.row(f.Protocol, f.Called.String(), f.Target.String(), count(f.Connections), orDash(f.VRF))
	}
	t.ifAny("VRF")
	fmt.Fprintln(w)
	return t.write(w)
}
