// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"

	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/model/packet"
)

// explainBody is the form of minne explain, and its answer.
type explainBody struct {
	Section                                         section
	Interfaces                                      []string
	In, Source, Destination, Protocol, SPort, DPort string
	Trouble                                         string
	Parts                                           []show.Part
}

// explain asks what becomes of a packet. Asking changes nothing, so the question stands in the address.
func (p *Page) explain(w http.ResponseWriter, r *request) {
	g := r.URL.Query()
	b := explainBody{Section: sectionOf("/explain"), In: g.Get("in"), Source: g.Get("src"), Destination: g.Get("dst"), Protocol: cmp.Or(g.Get("proto"), "tcp"),
		SPort: cmp.Or(g.Get("sport"), "40000"), DPort: cmp.Or(g.Get("dport"), "443")}
	ctx, end := bounded(r)
	defer end()
	if all, err := router.Interfaces.Ask(ctx, r.client, router.Nothing{}); err == nil {
		for _, i := range all.Interfaces {
			if i.Name != "lo" {
				b.Interfaces = append(b.Interfaces, i.Name)
			}
		}
	}
	if b.Source != "" || b.Destination != "" {
		probe, err := b.probe()
		var x router.Explanations
		if err == nil {
			x, err = router.Explain.Ask(ctx, r.client, router.ExplainQuestion{Interface: b.In, Packet: probe})
		}
		if err == nil {
			b.Parts, err = printed(func(paper *show.Paper) error {
				for _, one := range x.Packets {
					if err := show.Explain(paper, one); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			b.Trouble = err.Error()
		}
	}
	p.page(w, r, http.StatusOK, "explain", "Firewall", "Explain a packet", b)
}

func (b *explainBody) probe() (*packet.Probe, error) {
	var wrong []error
	addr := func(what, text string) netip.Addr {
		a, err := netip.ParseAddr(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s %q: expected an address as 192.0.2.1", what, text))
		}
		return a
	}
	port := func(what, text string) uint16 {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s %q: expected a port from 0 to 65535", what, text))
		}
		return uint16(n)
	}
	probe := &packet.Probe{Source: addr("source", b.Source), Destination: addr("destination", b.Destination), Protocol: b.Protocol, TTL: 64}
	if b.Protocol == "tcp" || b.Protocol == "udp" {
		probe.SrcPort, probe.DstPort = port("source port", b.SPort), port("destination port", b.DPort)
	}
	return probe, errors.Join(wrong...)
}
