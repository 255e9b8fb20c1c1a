// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"minne/internal/model/config"
)

// wireGuard is a device that keeps what it is told, as the kernel's does.
type wireGuard struct {
	now    *wgtypes.Device // nil: there is none
	writes int
}

func (w *wireGuard) Close() error { return nil }

func (w *wireGuard) Device(string) (*wgtypes.Device, error) {
	if w.now == nil {
		return nil, os.ErrNotExist
	}
	return w.now, nil
}

func (w *wireGuard) ConfigureDevice(_ string, c wgtypes.Config) error {
	w.writes++
	if c.PrivateKey != nil {
		w.now.PrivateKey, w.now.PublicKey = *c.PrivateKey, c.PrivateKey.PublicKey()
	}
	if c.ListenPort != nil {
		w.now.ListenPort = *c.ListenPort
	}
	for _, p := range c.Peers {
		n := 0
		for n < len(w.now.Peers) && w.now.Peers[n].PublicKey != p.PublicKey {
			n++
		}
		if p.Remove {
			w.now.Peers = append(w.now.Peers[:n], w.now.Peers[n+1:]...)
			continue
		}
		if n == len(w.now.Peers) {
			w.now.Peers = append(w.now.Peers, wgtypes.Peer{PublicKey: p.PublicKey})
		}
		at := &w.now.Peers[n]
		if p.Endpoint != nil {
			at.Endpoint = p.Endpoint
		}
		if p.PersistentKeepaliveInterval != nil {
			at.PersistentKeepaliveInterval = *p.PersistentKeepaliveInterval
		}
		if p.PresharedKey != nil {
			at.PresharedKey = *p.PresharedKey
		}
		if p.ReplaceAllowedIPs {
			at.AllowedIPs = p.AllowedIPs
		}
	}
	return nil
}

const (
	ownKey  = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="
	peerKey = "HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw="
)

// given renders an interface with one peer.
func given(t *testing.T, peer string) Desired {
	t.Helper()
	secrets, err := config.ParseSecrets("secrets.yaml", []byte("own: "+ownKey+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("test.yaml", []byte("version: 1\ninterfaces:\n  vpn: {wireguard: {private-key: own, listen-port: 51820, peers: {site: {public-key: \""+peerKey+"\", "+peer+"}}}}\n"))
	if err == nil {
		err = config.Check(cfg, secrets)
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := Render(cfg, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// bench is a service on such a device, with names that stand for the address that the test sets.
func bench() (t *Tunnels, w *wireGuard, name *netip.Addr) {
	w, name = &wireGuard{now: &wgtypes.Device{Name: "vpn"}}, new(netip.Addr)
	t = New(slog.New(slog.DiscardHandler))
	t.open = func() (control, error) { return w, nil }
	t.find = func(context.Context, string) (netip.Addr, error) {
		if !name.IsValid() {
			return *name, fmt.Errorf("no such host")
		}
		return *name, nil
	}
	return t, w, name
}

// The name of a peer is looked up once it is silent, again after a while, and never while the peer speaks.
func TestNameIsLookedUpAgain(t *testing.T) {
	s, w, name := bench()
	if err := s.Apply(t.Context(), given(t, "endpoint: south.example.net:51820, allowed: [10.9.0.2/32]")); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	look := func(at time.Time) int {
		list := s.silent(at)
		for _, m := range list {
			s.follow(t.Context(), m)
		}
		return len(list)
	}
	if look(now) != 1 || len(s.Trouble(t.Context())) != 1 {
		t.Errorf("a name that stands for nothing: %v", s.Trouble(t.Context()))
	}
	*name = netip.MustParseAddr("203.0.113.5")
	if look(now.Add(time.Second)) != 0 {
		t.Error("looked up twice within a second")
	}
	look(now.Add(lookEvery))
	if p := w.now.Peers[0]; p.Endpoint == nil || p.Endpoint.String() != "203.0.113.5:51820" || len(s.Trouble(t.Context())) != 0 {
		t.Errorf("%v, %v", p.Endpoint, s.Trouble(t.Context()))
	}
	w.now.Peers[0].LastHandshakeTime = now
	*name = netip.MustParseAddr("203.0.113.6")
	if look(now.Add(2*time.Minute)) != 0 {
		t.Error("the name of a peer that speaks is looked up")
	}
	look(now.Add(silence + time.Second))
	if p := w.now.Peers[0]; p.Endpoint.String() != "203.0.113.6:51820" {
		t.Errorf("the peer that fell silent is still looked for at %v", p.Endpoint)
	}
}

// A peer that moved stays where it is: neither a check nor the same configuration, nor another daemon, calls it back.
func TestRoamingPeer(t *testing.T) {
	s, w, _ := bench()
	d := given(t, "endpoint: \"203.0.113.5:51820\", allowed: [10.9.0.2/32, 10.2.0.0/24], keepalive: 25s")
	if err := s.Apply(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if p := w.now.Peers[0]; p.Endpoint.String() != "203.0.113.5:51820" || len(p.AllowedIPs) != 2 || p.PersistentKeepaliveInterval != 25*time.Second {
		t.Fatalf("%+v", p)
	}
	moved := &net.UDPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 4000}
	w.now.Peers[0].Endpoint, w.writes = moved, 0
	s.putBack()
	if err := s.Apply(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	another := New(slog.New(slog.DiscardHandler))
	another.open = s.open
	if err := another.Apply(t.Context(), d); err != nil || w.writes != 0 || w.now.Peers[0].Endpoint != moved {
		t.Errorf("%v, %d writes, peer at %v", err, w.writes, w.now.Peers[0].Endpoint)
	}
	// Another endpoint in the file is meant.
	if err := s.Apply(t.Context(), given(t, "endpoint: \"203.0.113.9:51820\", allowed: [10.9.0.2/32]")); err != nil || w.now.Peers[0].Endpoint.String() != "203.0.113.9:51820" || len(w.now.Peers[0].AllowedIPs) != 1 {
		t.Errorf("%v, %+v", err, w.now.Peers[0])
	}
}

// A port that leaves the configuration is free for others; one that the kernel chose stays.
func TestPortIsGivenBack(t *testing.T) {
	s, w, _ := bench()
	d := given(t, "allowed: [10.9.0.2/32]")
	if err := s.Apply(t.Context(), d); err != nil || w.now.ListenPort != 51820 {
		t.Fatalf("%v, port %d", err, w.now.ListenPort)
	}
	without, vpn := given(t, "allowed: [10.9.0.2/32]"), d.devices["vpn"]
	vpn.port = 0
	without.devices["vpn"] = vpn
	if err := s.Apply(t.Context(), without); err != nil || w.now.ListenPort != 0 {
		t.Errorf("%v, port %d", err, w.now.ListenPort)
	}
	w.now.ListenPort, w.writes = 40000, 0
	s.putBack()
	if err := s.Apply(t.Context(), without); err != nil || w.writes != 0 {
		t.Errorf("%v, %d writes", err, w.writes)
	}
}

// Neither a preview nor any way of printing has a key.
func TestKeysAreNotPrinted(t *testing.T) {
	s, _, _ := bench()
	d := given(t, "allowed: [10.9.0.2/32]")
	changes, err := s.Plan(t.Context(), d)
	if err != nil || len(changes) != 3 {
		t.Errorf("%v, %v", changes, err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s %v", d, d, d, slog.AnyValue(d), changes); strings.Contains(text, ownKey) {
		t.Error(text)
	}
}
