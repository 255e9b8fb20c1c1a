// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"minne/internal/base/plan"
	"minne/internal/model/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestRenderGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	secrets, err := config.ParseSecrets("secrets", []byte("isp-a: s3cret\nospf: \"0spfkey\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Parse(file, data)
			if err != nil {
				t.Fatal(err)
			}
			if err := config.Check(cfg, secrets); err != nil {
				t.Fatal(err)
			}
			d, err := Render(cfg, secrets)
			if err != nil {
				t.Fatal(err)
			}
			got := "! daemons: " + strings.Join(d.Daemons(), " ") + "\n" + d.Text()
			golden := strings.TrimSuffix(file, ".yaml") + ".conf"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs (go test -update writes it anew):\n%s", golden, got)
			}
			for daemon, text := range d.text {
				if diff := difference(parse(text), parse(text)); len(diff) > 0 {
					t.Errorf("%s: a configuration differs from itself: %q", daemon, diff)
				}
			}
		})
	}
}

func TestRenderErrorsNameTheKey(t *testing.T) {
	peer := func(p config.BGPPeer) *config.Config {
		c := &config.Config{System: config.System{RouterID: addr("192.0.2.1")}}
		c.Routing.BGP = &config.BGP{ASN: 64500, Peers: map[string]*config.BGPPeer{"a": &p}}
		return c
	}
	ospf := func(i config.OSPFInterface) *config.Config {
		c := &config.Config{System: config.System{RouterID: addr("192.0.2.1")}}
		c.Routing.OSPF = &config.OSPF{Areas: map[config.AreaID]*config.OSPFArea{7: {Interfaces: map[string]*config.OSPFInterface{"lan": &i}}}}
		return c
	}
	noID := peer(config.BGPPeer{Address: addr("192.0.2.2"), ASN: 1})
	noID.System.RouterID = netip.Addr{}
	for _, c := range []struct {
		cfg  *config.Config
		want string
	}{
		{noID, "system.router-id"},
		{peer(config.BGPPeer{ASN: 1}), "routing.bgp.peers.a.address"},
		{peer(config.BGPPeer{Address: addr("192.0.2.2")}), "routing.bgp.peers.a.asn"},
		{peer(config.BGPPeer{Address: addr("192.0.2.2"), ASN: 1, Password: "nobody"}), `routing.bgp.peers.a.password: no secret is named "nobody"`},
		{peer(config.BGPPeer{Address: addr("192.0.2.2"), ASN: 1, Password: "spaced"}), "has a space"},
		{peer(config.BGPPeer{Address: addr("192.0.2.2"), ASN: 1, Password: "comment"}), "begins with ! or #"},
		{ospf(config.OSPFInterface{Auth: &config.OSPFAuth{KeyID: 1, Secret: "long"}}), "routing.ospf.areas.0.0.0.7.interfaces.lan.auth.secret: the secret \"long\" has 17 bytes, expected 1 to 16"},
		{ospf(config.OSPFInterface{Auth: &config.OSPFAuth{KeyID: 1, Secret: "good", Algorithm: "sha256"}}), "OSPFv2 supports md5 only"},
	} {
		config.Normalize(c.cfg)
		_, err := Render(c.cfg, passwords{"spaced": "Geheim Wort", "comment": "#Geheim", "long": "GeheimGeheimGehei", "good": "x"})
		if s := contains(fmt.Sprint(err), c.want); s != "" {
			t.Error(s)
		}
		if strings.Contains(fmt.Sprint(err), "Geheim") {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
}

func TestBogonPath(t *testing.T) {
	known := []uint32{64500, 65001, 4200000000}
	re := bogonPath(known)
	// FRR's "_" is a border between AS numbers.
	compiled := regexp.MustCompile(strings.ReplaceAll(re, "_", "(?:^|[ ]|$)"))
	check := func(n uint64) {
		want := slices.ContainsFunc(bogonASNs, func(r asnRange) bool { return n >= r.lo && n <= r.hi }) && !slices.Contains(known, uint32(n))
		if got := compiled.MatchString("3356 " + strconv.FormatUint(n, 10) + " 1299"); got != want {
			t.Fatalf("AS %d: bogon %v, expected %v by %s", n, got, want, re)
		}
	}
	for n := uint64(0); n < 140000; n++ {
		check(n)
	}
	for _, edge := range []uint64{4200000000, 4294967295, 1310720000, 645000000, 10, 100, 429496729} {
		for n := max(edge, 3000) - 3000; n <= min(edge+3000, 4294967295); n++ {
			check(n)
		}
	}
}

func TestTokenIsInjective(t *testing.T) {
	seen := map[string]string{}
	for _, n := range []string{"a", "a_b", "a b", "a_5fb", "ü", "A", "a.b", "a-b", "", "\n", "!"} {
		w := token(n)
		if other, twice := seen[w]; twice {
			t.Errorf("%q and %q are both %q", n, other, w)
		}
		seen[w] = n
		if strings.ContainsAny(w, " \n!|") {
			t.Errorf("%q gives %q", n, w)
		}
	}
}

func TestDifference(t *testing.T) {
	for _, c := range []struct{ name, have, want, commands string }{
		{"same in another order", "ip prefix-list a seq 5 permit any\nrouter ospf\n area 1 stub\nexit\n", "router ospf\n area 1 stub\n!\nexit\nip prefix-list a seq 5 permit any", ""},
		{"a value is overwritten", "interface lan\n ip ospf cost 10\nexit", "interface lan\n ip ospf cost 20\nexit", "interface lan; ip ospf cost 20; exit"},
		{"a value goes", "interface lan\n ip ospf cost 10\nexit", "interface lan\nexit", "interface lan; no ip ospf cost 10; exit"},
		{"an entry with the same number", "ip prefix-list a seq 5 permit any", "ip prefix-list a seq 5 deny any", "no ip prefix-list a seq 5 permit any; ip prefix-list a seq 5 deny any"},
		{"lists go last", "router bgp 1\n neighbor 1.1.1.1 route-map x in\nexit\nroute-map x permit 10\nexit\nip prefix-list a seq 5 permit any",
			"router bgp 1\nexit", "router bgp 1; no neighbor 1.1.1.1 route-map x in; exit; no route-map x permit 10; no ip prefix-list a seq 5 permit any"},
		{"lists come first", "", "router bgp 1\nexit\nroute-map x permit 10\nexit\nip prefix-list a seq 5 permit any",
			"ip prefix-list a seq 5 permit any; route-map x permit 10; exit; router bgp 1; exit"},
		{"a clause changes its action", "route-map x permit 10\n set tag 1\nexit", "route-map x deny 10\nexit", "no route-map x permit 10; route-map x deny 10; exit"},
		{"another own AS number", "router bgp 1\n bgp log-neighbor-changes\nexit", "router bgp 2\nexit", "no router bgp 1; router bgp 2; exit"},
		{"another peer AS number", "router bgp 1\n neighbor 1.1.1.1 remote-as 2\n neighbor 1.1.1.1 passive\n neighbor 1.1.1.11 remote-as 2\nexit",
			"router bgp 1\n neighbor 1.1.1.1 remote-as 3\n neighbor 1.1.1.1 passive\n neighbor 1.1.1.11 remote-as 2\nexit",
			"router bgp 1; no neighbor 1.1.1.1; exit; router bgp 1; neighbor 1.1.1.1 remote-as 3; neighbor 1.1.1.1 passive; exit"},
		{"another router id", "router ospf\n ospf router-id 1.1.1.1\n area 1 stub\nexit", "router ospf\n ospf router-id 2.2.2.2\n area 1 stub\nexit",
			"no router ospf; router ospf; ospf router-id 2.2.2.2; area 1 stub; exit"},
		{"a negated default", "router bgp 1\n no bgp network import-check\nexit", "router bgp 1\nexit", "router bgp 1; bgp network import-check; exit"},
		{"a family goes", "router bgp 1\n address-family ipv4 unicast\n  network 9.0.0.0/8\n exit-address-family\nexit", "router bgp 1\nexit",
			"router bgp 1; address-family ipv4 unicast; no network 9.0.0.0/8; exit-address-family; exit"},
		{"timers are two settings", "router bgp 1\n neighbor 1.1.1.1 timers 10 30\n neighbor 1.1.1.1 timers connect 5\nexit",
			"router bgp 1\n neighbor 1.1.1.1 timers 20 60\n neighbor 1.1.1.1 timers connect 5\nexit", "router bgp 1; neighbor 1.1.1.1 timers 20 60; exit"},
		{"what is not ours stays", "hostname x\nlog syslog\nno ip forwarding\nfrr version 8.4.4", "", ""},
	} {
		if got := strings.Join(difference(parse(c.have), parse(c.want)), "; "); got != c.commands {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.commands)
		}
	}
}

// between is the preview of going from one desired state to another.
func between(old, new Desired) []plan.Change {
	return effects(old.trees(), new.trees(), old, new)
}

func TestEffects(t *testing.T) {
	base := func() *config.Config {
		c := campus(true)
		c.Routing.BGP.Peers["isp-a"].BFD = on()
		return c
	}
	secrets := passwords{"isp-a": "s3cret", "ospf": "s3cret"}
	render := func(c *config.Config, s passwords) Desired {
		d, err := Render(config.Normalize(c), s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, c := range []struct {
		name   string
		change func(*config.Config) passwords
		want   string
	}{
		{"nothing", func(c *config.Config) passwords { return secrets }, ""},
		{"preference", func(c *config.Config) passwords { c.Routing.BGP.Peers["isp-b"].Import.Preference = 7; return secrets },
			"~ BGP import from isp-b: 100 → 7 (routes are filtered again, the session stays)"},
		{"password", func(c *config.Config) passwords { return passwords{"isp-a": "other", "ospf": "s3cret"} },
			"! BGP peer isp-a (192.0.2.2) password (BGP session isp-a resets)"},
		{"peer's AS number", func(c *config.Config) passwords { c.Routing.BGP.Peers["isp-b"].ASN = 3356; return secrets },
			"~ BGP import from isp-a (routes are filtered again, the session stays)\n! BGP peer isp-b (198.51.100.2) remote-as (BGP session isp-b resets)\n~ BGP import from isp-b (routes are filtered again, the session stays)"},
		{"address", func(c *config.Config) passwords {
			c.Routing.BGP.Peers["isp-b"].Address = addr("198.51.100.3")
			return secrets
		},
			"- BGP peer isp-b (198.51.100.2) (BGP session isp-b ends)\n+ BGP peer isp-b (198.51.100.3)"},
		{"source", func(c *config.Config) passwords {
			c.Routing.BGP.Peers["isp-b"].Source = addr("198.51.100.1")
			return secrets
		},
			"! BGP peer isp-b (198.51.100.2) update-source (BGP session isp-b resets)"},
		{"down", func(c *config.Config) passwords { c.Routing.BGP.Peers["isp-b"].Disabled = true; return secrets },
			"! BGP peer isp-b (198.51.100.2) (BGP session isp-b ends)"},
		{"hold time", func(c *config.Config) passwords {
			c.Routing.BGP.Peers["isp-b"].HoldTime = config.Duration(30 * time.Second)
			return secrets
		},
			"~ BGP peer isp-b (198.51.100.2) timers: 3 9, connect 10 → 10 30, connect 10 (taken over when the session starts next)"},
		{"own AS number", func(c *config.Config) passwords { c.Routing.BGP.ASN = 3356; return secrets },
			"~ BGP AS number: 64500 → 3356\n! BGP peer isp-a (192.0.2.2) (BGP session isp-a resets)\n~ BGP import from isp-a (routes are filtered again, the session stays)\n! BGP peer isp-b (198.51.100.2) (BGP session isp-b resets)\n~ BGP import from isp-b (routes are filtered again, the session stays)"},
		{"announcement", func(c *config.Config) passwords {
			c.Routing.BGP.Announce = append(c.Routing.BGP.Announce, prefix("9.10.0.0/16"))
			return secrets
		}, "+ BGP announcement of 9.10.0.0/16\n~ BGP export to isp-a (routes are filtered again, the session stays)\n~ BGP export to isp-b (routes are filtered again, the session stays)"},
		{"multipath", func(c *config.Config) passwords { c.Routing.BGP.Multipath = 4; return secrets }, "~ BGP multipath: 1 → 4"},
		{"restart time", func(c *config.Config) passwords {
			c.Routing.BGP.RestartTime = config.Duration(90 * time.Second)
			return secrets
		}, "~ BGP restart time: default → 90 (each session takes it over when it starts next)"},
		{"no graceful restart", func(c *config.Config) passwords { c.Routing.BGP.GracefulRestart = off(); return secrets },
			"~ BGP graceful restart: on → off (each session takes it over when it starts next)"},
		{"no BGP", func(c *config.Config) passwords { c.Routing.BGP = nil; return secrets }, "- BGP AS 64500 (all BGP sessions end)"},
		{"cost", func(c *config.Config) passwords { c.Routing.OSPF3.Areas[0].Interfaces["to-i"].Cost = 0; return secrets },
			"~ OSPFv3 cost on to-i: 15 → default"},
		{"OSPF key", func(c *config.Config) passwords { return passwords{"isp-a": "s3cret", "ospf": "other"} },
			"! OSPF on to-i authentication (OSPF adjacency on to-i resets)\n! OSPFv3 on to-i authentication (OSPFv3 adjacency on to-i resets)"},
		{"area type", func(c *config.Config) passwords { c.Routing.OSPF.Areas[5].Type = "stub"; return secrets },
			"- OSPF area 0.0.0.5 nssa\n+ OSPF area 0.0.0.5 stub\n! OSPF on to-b (OSPF adjacency on to-b resets)"},
		{"interface leaves", func(c *config.Config) passwords { delete(c.Routing.OSPF.Areas[0].Interfaces, "to-i"); return secrets },
			"- OSPF on to-i (OSPF adjacency on to-i ends)"},
		{"router id", func(c *config.Config) passwords {
			c.Routing.BGP, c.Routing.OSPF3, c.System.RouterID = nil, nil, addr("1.2.3.4")
			return secrets
		}, "- BGP AS 64500 (all BGP sessions end)\n~ OSPF router id: 192.0.2.1 → 1.2.3.4\n! OSPF on lo (OSPF adjacency on lo resets)\n! OSPF on to-b (OSPF adjacency on to-b resets)\n! OSPF on to-i (OSPF adjacency on to-i resets)\n- OSPFv3 (all OSPFv3 adjacencies end)"},
	} {
		changed := base()
		with := c.change(changed)
		var got []string
		for _, ch := range between(render(base(), secrets), render(changed, with)) {
			got = append(got, ch.String())
		}
		if s := strings.Join(got, "\n"); s != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, s, c.want)
		}
	}
}

func TestRefusalHidesSecrets(t *testing.T) {
	for _, line := range []string{" neighbor 1.1.1.1 password s3cret", " ip ospf message-digest-key 1 md5 s3cret",
		" ipv6 ospf6 authentication key-id 1 hash-algo md5 key s3cret"} {
		e := &refused{bgpd, line, "% [BGP] Unknown command: " + line + "\n"}
		if strings.Contains(e.Error(), "s3cret") {
			t.Errorf("tells a secret: %v", e)
		}
		e.answer = "% Can't take " + strings.TrimSpace(line)
		if strings.Contains(e.Error(), "s3cret") {
			t.Errorf("tells a secret: %v", e)
		}
	}
}

// FuzzRender feeds strange words to every text of the configuration: never a panic, never a line
// that the configuration's author could have smuggled in.
func FuzzRender(f *testing.F) {
	f.Add("isp-a", "fibre\nrouter bgp 1", "lan", "secret", uint32(64500), uint32(65000), uint64(0), "10.0.0.0/8")
	f.Add("a\x00!b", "!x | y\r\n exit", "l n", "s3cret\nexit", uint32(0), uint32(1), ^uint64(0), "::/0")
	f.Fuzz(func(t *testing.T, name, text, iface, secret string, asn, peerASN uint32, bits uint64, pfx string) {
		bit := func(n int) bool { return bits>>n&1 == 1 }
		p, _ := netip.ParsePrefix(pfx)
		cfg := &config.Config{System: config.System{RouterID: addr("192.0.2.1")}}
		toggle := config.OnOff(bit(0))
		address := addr("192.0.2.2")
		if bit(1) {
			address = addr("fe80::1")
		}
		cfg.Routing.BGP = &config.BGP{ASN: config.ASN(asn), Announce: []config.Prefix{{Prefix: p}}, Multipath: int(bits >> 60), Peers: map[string]*config.BGPPeer{
			name: {Address: address, Interface: iface, ASN: config.ASN(peerASN), Description: text, Password: "p", BFD: &toggle, Disabled: bit(2), Passive: bit(3),
				HoldTime: config.Duration(bits >> 20), Families: []config.Family{"ipv4", "ipv6"},
				Import: config.BGPImport{Accept: []config.Prefix{{Prefix: p}}, Default: &toggle, Preference: int(bits >> 40)},
				Export: config.BGPExport{Routes: config.ExportSet([]string{"own", "all", "default", "none"}[bits>>4&3]), Prepend: int(bits >> 6 & 7)}},
		}}
		if bit(7) {
			cfg.Routing.BGP.Peers[name].Interface = ""
		}
		areas := map[config.AreaID]*config.OSPFArea{config.AreaID(peerASN): {Type: "stub", Interfaces: map[string]*config.OSPFInterface{
			iface: {Auth: &config.OSPFAuth{KeyID: 1, Secret: "p"}, Hello: config.Duration(bits >> 20), BFD: &toggle}}}, 3: nil}
		if bit(8) {
			cfg.Routing.OSPF = &config.OSPF{Areas: areas, DefaultRoute: "bgp", Redistribute: []config.Redistribute{"static"}}
		}
		if bit(9) {
			cfg.Routing.OSPF3 = &config.OSPF{Areas: areas}
		}
		cfg.Routing.Static = []config.StaticRoute{{Prefix: config.Prefix{Prefix: p}}}
		config.Normalize(cfg)
		d, err := Render(cfg, passwords{"p": secret})
		if err != nil {
			return
		}
		for daemon, conf := range d.text {
			if bad := strings.IndexFunc(conf, func(r rune) bool {
				return r < ' ' && r != '\n' || r == 0x7f || r == '|' && !strings.Contains(conf, "bogon-asn")
			}); bad >= 0 {
				t.Fatalf("%s: %q", daemon, conf[bad:])
			}
			for line := range strings.Lines(conf) {
				if !known.MatchString(line) {
					t.Fatalf("%s: a line of nobody's: %q", daemon, line)
				}
			}
			if diff := difference(parse(conf), parse(conf)); len(diff) > 0 {
				t.Fatalf("%s differs from itself: %q", daemon, diff)
			}
		}
		if got := d.text[bgpd]; d.text[bgpd] != "" && strings.Count(got, "router bgp") != strings.Count(freeText(text), "router bgp")+strings.Count(secret, "router bgp")+1 {
			t.Fatalf("a second speaker: %s", got)
		}
	})
}

// known matches every line that the renderers write.
var known = regexp.MustCompile(`^(bgp |router |interface |ip(v6)? prefix-list |route-map |exit\n| (no )?bgp | neighbor | address-family | exit-address-family|  network |  neighbor |  maximum-paths | match | set | ip ospf | ipv6 ospf6 | ospf6? router-id| log-adjacency| auto-cost| redistribute | graceful-restart| area | default-information )`)
