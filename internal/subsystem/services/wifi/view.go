// SPDX-License-Identifier: Apache-2.0

package wifi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"minne/internal/base/nl80211"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/service"
)

// Observed is what the radios do.
type Observed struct {
	Radios []Radio `json:"radios"`
}

// Radio is a radio of the configuration.
type Radio struct {
	Name       string      `json:"name"`
	Device     string      `json:"device,omitempty"` // the kernel's name; absent while the radio is
	MAC        string      `json:"mac,omitempty"`
	Country    string      `json:"country"`           // whose rules hold now
	Channel    int         `json:"channel,omitempty"` // the first one, 0 while the radio is on none
	MHz        int         `json:"mhz,omitempty"`
	Width      int         `json:"width_mhz,omitempty"`
	Power      int         `json:"power_dbm,omitempty"`
	Use        *Use        `json:"channel_use,omitempty"` // absent where the driver does not tell
	Interfaces []Interface `json:"interfaces"`
}

// Use is how busy a channel is, since the interface is there.
type Use struct {
	Busy  int `json:"busy_percent"` // of the time, with frames of everybody
	Sent  int `json:"sent_percent"` // of the time, with frames of this radio
	Noise int `json:"noise_dbm,omitempty"`
}

// Interface is one interface of a radio.
type Interface struct {
	Name     string              `json:"name"`
	Type     string              `json:"type"` // access point, station or mesh
	Network  string              `json:"network"`
	Security config.WiFiSecurity `json:"security"`
	MAC      string              `json:"mac,omitempty"`
	State    string              `json:"state"` // up, or down: of a station, whether it has joined
	Peers    []Peer              `json:"peers"` // clients, the access point, or peers of a mesh
}

// Peer is another end.
type Peer struct {
	MAC         string    `json:"mac"`
	Signal      int       `json:"signal_dbm"`
	ReceiveRate float64   `json:"receive_mbit"`
	SendRate    float64   `json:"send_mbit"`
	Received    uint64    `json:"received_bytes"`
	Sent        uint64    `json:"sent_bytes"`
	Since       time.Time `json:"connected_since,omitzero"`
	Connected   int64     `json:"connected_seconds"`
	Silent      int64     `json:"silent_milliseconds"`
}

// Observe asks the kernel about the configured interfaces.
func (c *Client) Observe(ctx context.Context) (Observed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := Observed{Radios: []Radio{}}
	if c.desired.empty() {
		return o, nil
	}
	conn, err := nl80211.Open()
	if errors.Is(err, nl80211.ErrNone) {
		conn = nil
	} else if err != nil {
		return o, err
	}
	var now []nl80211.Interface
	var radios []nl80211.Radio
	country := ""
	if conn != nil {
		defer conn.Close()
		now, err = conn.Interfaces(ctx)
		if err == nil {
			radios, err = conn.Radios(ctx)
		}
		if err == nil {
			country, err = conn.Country(ctx)
		}
		if err != nil {
			return o, err
		}
	}
	for _, name := range sorted(c.desired.radios()) {
		r := Radio{Name: name, Country: country, Interfaces: []Interface{}}
		if phy := find(name, c.desired.cfg.Radios[name], radios); phy != nil {
			r.Device, r.MAC = phy.Name, phy.MAC.String()
		}
		for _, name := range c.desired.cfg.WiFiOn(name) {
			i := observed(name, c.desired.cfg.Interfaces[name].WiFi)
			if n := slices.IndexFunc(now, func(k nl80211.Interface) bool { return k.Name == name }); n >= 0 {
				if err := r.read(ctx, conn, now[n], &i); err != nil {
					return o, err
				}
			}
			r.Interfaces = append(r.Interfaces, i)
		}
		o.Radios = append(o.Radios, r)
	}
	return o, nil
}

// observed is an interface of which only the configuration is known.
func observed(name string, w *config.WiFi) Interface {
	t := purpose(w)
	i := Interface{Name: name, Type: t.String(), State: "down", Peers: []Peer{}}
	switch {
	case w.AccessPoint != nil:
		i.Network, i.Security = w.AccessPoint.SSID, w.AccessPoint.Security
	case w.Station != nil:
		i.Network, i.Security = w.Station.SSID, w.Station.Security
	default:
		i.Network, i.Security = w.Mesh.ID, "wpa3"
	}
	return i
}

// read takes what the kernel says of an interface.
func (r *Radio) read(ctx context.Context, conn *nl80211.Conn, now nl80211.Interface, i *Interface) error {
	i.MAC = now.MAC.String()
	peers, err := conn.Peers(ctx, now.Index)
	if err != nil {
		return err
	}
	for _, p := range peers {
		if !p.Joined {
			continue
		}
		v := Peer{MAC: p.MAC.String(), Signal: p.Signal, ReceiveRate: float64(p.ReceiveAt) / 10, SendRate: float64(p.SendAt) / 10,
			Received: p.Received, Sent: p.Sent, Connected: int64(p.Connected / time.Second), Silent: p.Silent.Milliseconds()}
		if p.Connected > 0 {
			v.Since = time.Now().Add(-p.Connected).Round(time.Second).UTC()
		}
		i.Peers = append(i.Peers, v)
	}
	if now.MHz != 0 && (now.Type != nl80211.Station || len(i.Peers) > 0) {
		i.State = "up"
	}
	if now.MHz == 0 || r.MHz != 0 {
		return nil
	}
	r.MHz, r.Width, r.Power, r.Channel = now.MHz, now.Width, now.Power, channelOf(now.MHz)
	u, ok, err := conn.Use(ctx, now.Index)
	if err != nil || !ok || !u.InTime || u.Time <= 0 {
		return err
	}
	r.Use = &Use{Busy: int(100 * u.Busy / u.Time), Sent: int(100 * u.Sent / u.Time), Noise: u.Noise}
	return nil
}

// channelOf is the channel of a frequency.
func channelOf(mhz int) int {
	for _, b := range []config.RadioBand{config.Band2, config.Band5} {
		for _, c := range b.Channels() {
			if b.MHz(c) == mhz {
				return c
			}
		}
	}
	return 0
}

// table prints a line for each interface, and below it one for each other end.
func table(o Observed) service.Table {
	t := service.Table{Head: []string{"Interface", "~Network or other end", "!State", ">Signal", ">Receives", ">Sends", ">Received", ">Sent", ">Connected"},
		Empty: "No interface is Wi-Fi."}
	for _, r := range o.Radios {
		for _, i := range r.Interfaces {
			t.Rows = append(t.Rows, []string{i.Name, fmt.Sprintf("%s %s (%s)\n%s", i.Type, printable(i.Network), i.Security, r.words()), i.State, "", "", "", "", "", ""})
			for _, p := range i.Peers {
				t.Rows = append(t.Rows, []string{"", p.MAC, "", fmt.Sprintf("%d dBm", p.Signal), mbit(p.ReceiveRate), mbit(p.SendRate),
					service.Amount(int64(p.Received)), service.Amount(int64(p.Sent)), (time.Duration(p.Connected) * time.Second).String()})
			}
		}
	}
	return t
}

// words say where a radio is.
func (r Radio) words() string {
	switch {
	case r.Device == "":
		return r.Name + ": there is no such radio"
	case r.MHz == 0:
		return r.Name + ": on no channel"
	}
	text := fmt.Sprintf("%s: channel %d (%d MHz), %d MHz wide, %d dBm, %s", r.Name, r.Channel, r.MHz, r.Width, r.Power, r.Country)
	if r.Use != nil {
		text += fmt.Sprintf(", %d%% busy", r.Use.Busy)
	}
	return text
}

func mbit(rate float64) string {
	if rate == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g Mbit/s", rate)
}
