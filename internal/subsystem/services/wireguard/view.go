// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"minne/internal/subsystem/services/service"
)

// Observed is what WireGuard does. It has public keys and no others.
type Observed struct {
	Interfaces []Interface `json:"interfaces"`
}

// Interface is one interface of this router.
type Interface struct {
	Name       string `json:"name"`
	PublicKey  string `json:"public_key"`
	ListenPort int    `json:"listen_port"`
	Program    bool   `json:"program"` // wireguard-go instead of the kernel
	Peers      []Peer `json:"peers"`
}

// Peer is one other end, as it was heard last.
type Peer struct {
	Name      string    `json:"name"`
	PublicKey string    `json:"public_key"`
	State     string    `json:"state"` // up, silent or never
	Endpoint  string    `json:"endpoint,omitempty"`
	Allowed   []string  `json:"allowed"`
	Handshake time.Time `json:"last_handshake,omitzero"`
	Age       int64     `json:"handshake_age_seconds"` // -1: there was none
	Received  int64     `json:"received_bytes"`
	Sent      int64     `json:"sent_bytes"`
}

// Observe reads the configured interfaces.
func (t *Tunnels) Observe(context.Context) (Observed, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := Observed{Interfaces: []Interface{}}
	if len(t.desired.devices) == 0 {
		return o, nil
	}
	c, err := t.open()
	if err != nil {
		return o, fmt.Errorf("wireguard: %w", err)
	}
	defer c.Close()
	for _, name := range slices.Sorted(maps.Keys(t.desired.devices)) {
		now, err := current(c, name)
		if err != nil {
			return o, err
		}
		if now != nil {
			o.Interfaces = append(o.Interfaces, t.desired.devices[name].observed(now, time.Now()))
		}
	}
	return o, nil
}

func (d device) observed(now *wgtypes.Device, at time.Time) Interface {
	i := Interface{Name: now.Name, PublicKey: now.PublicKey.String(), ListenPort: now.ListenPort,
		Program: now.Type == wgtypes.Userspace, Peers: []Peer{}}
	for _, p := range now.Peers {
		v := Peer{Name: d.peers[p.PublicKey].name, PublicKey: p.PublicKey.String(), State: "never", Age: -1,
			Allowed: []string{}, Received: p.ReceiveBytes, Sent: p.TransmitBytes}
		if p.Endpoint != nil {
			v.Endpoint = p.Endpoint.String()
		}
		for _, a := range prefixes(p.AllowedIPs) {
			v.Allowed = append(v.Allowed, a.String())
		}
		if !p.LastHandshakeTime.IsZero() {
			v.Handshake, v.Age, v.State = p.LastHandshakeTime.UTC(), int64(max(0, at.Sub(p.LastHandshakeTime))/time.Second), "silent"
			if at.Sub(p.LastHandshakeTime) < silence {
				v.State = "up"
			}
		}
		i.Peers = append(i.Peers, v)
	}
	slices.SortFunc(i.Peers, func(a, b Peer) int { return strings.Compare(a.Name, b.Name) })
	return i
}

// table prints the peers.
func table(o Observed) service.Table {
	t := service.Table{Head: []string{"Interface", "Peer", "!State", "Endpoint", ">Handshake", ">Received", ">Sent"},
		Empty: "no WireGuard interface is configured, or it has no peer"}
	for _, i := range o.Interfaces {
		for _, p := range i.Peers {
			ago, endpoint := "-", "-"
			if p.Age >= 0 {
				ago = (time.Duration(p.Age) * time.Second).String()
			}
			if p.Endpoint != "" {
				endpoint = p.Endpoint
			}
			t.Rows = append(t.Rows, []string{i.Name, p.Name, p.State, endpoint, ago, service.Amount(p.Received), service.Amount(p.Sent)})
		}
	}
	return t
}
