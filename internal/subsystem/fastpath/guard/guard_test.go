// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"minne/internal/model/config"
)

const base = `version: 1
system: {router-id: 192.0.2.1}
interfaces:
  lan: {addresses: [192.0.2.1/24, "2001:db8::1/64"]}
routing:
  static:
    - {prefix: 198.51.100.0/24, via: [192.0.2.9, 192.0.2.2]}
    - {prefix: "2001:db8:1::/48", via: ["fe80::9%lan"]}
    - {prefix: 203.0.113.0/24, blackhole: true}
  bgp:
    asn: 64500
    peers:
      a: {address: 192.0.2.2, asn: 64501}
      b: {address: "fe80::2", interface: lan, asn: 64502}
      c: {address: 192.0.2.3, asn: 64503, disabled: true}
`

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestRender(t *testing.T) {
	s := Render(parsed(t, base), 4)
	if !s.On || s.Ports != 1 {
		t.Errorf("by default the guard is on: %v, of 1 interface: %d", s.On, s.Ports)
	}
	want := []Peer{
		{netip.MustParseAddr("192.0.2.2"), "", true}, // next hop and BGP peer
		{netip.MustParseAddr("192.0.2.9"), "", false},
		{netip.MustParseAddr("fe80::2"), "lan", true},
		{netip.MustParseAddr("fe80::9"), "lan", false},
	}
	if !reflect.DeepEqual(s.Peers, want) {
		t.Errorf("peers %v, want %v", s.Peers, want)
	}
	if got := s.Budgets[ICMP]; got != (Budget{1000, 100}) {
		t.Errorf("ICMP: %+v", got)
	}
	if got := s.Budgets[TTL]; got != (Budget{4000, 200}) {
		t.Errorf("TTL on four CPUs: %+v, want 4000 a second", got)
	}

	s = Render(parsed(t, base+"fast-path:\n  guard: {mode: off, icmp: {per-second: 0, per-source: 7}, ttl: {per-second: 9}}\n"), 4)
	if s.On {
		t.Error("the guard is on, the configuration says off")
	}
	if s.Budgets[ICMP] != (Budget{0, 7}) || s.Budgets[TTL] != (Budget{9, 200}) {
		t.Errorf("ICMP %+v, TTL %+v, want what the configuration says", s.Budgets[ICMP], s.Budgets[TTL])
	}
}

// Tunnels of the configuration have room for what they carry, unless the configuration says how much.
func TestRenderTunnels(t *testing.T) {
	const gre, vxlan = "  a: {tunnel: {type: gre, remote: 203.0.113.9}}\n", "  b: {tunnel: {type: vxlan, id: 5, remote: 203.0.113.9}}\n"
	for _, c := range []struct {
		more           string
		udp, protocols Budget
	}{
		{"", Budget{20_000, 5_000}, Budget{20_000, 10_000}},
		{gre, Budget{20_000, 5_000}, Budget{160_000, 120_000}},
		{vxlan, Budget{160_000, 120_000}, Budget{20_000, 10_000}},
		{vxlan + "fast-path: {guard: {udp: {per-source: 7}}}\n", Budget{160_000, 7}, Budget{20_000, 10_000}},
	} {
		s := Render(parsed(t, "version: 1\ninterfaces:\n  lan: {}\n"+c.more), 4)
		if s.Budgets[DHCP] != (Budget{1_000, 20}) {
			t.Errorf("DHCP: %+v", s.Budgets[DHCP])
		}
		if s.Budgets[UDP] != c.udp || s.Budgets[Protocols] != c.protocols {
			t.Errorf("%q: %+v, %+v", c.more, s.Budgets[UDP], s.Budgets[Protocols])
		}
	}
}

// With a DHCP relay, the answers of a server are as many as all hosts'.
func TestRenderRelay(t *testing.T) {
	s := Render(parsed(t, "version: 1\ninterfaces:\n  lan: {addresses: [192.0.2.1/24]}\nservices: {dhcp-relay: {lan: {servers: [203.0.113.67]}}}\n"), 4)
	if s.Budgets[DHCP] != (Budget{1_000, 1_000}) {
		t.Errorf("%+v", s.Budgets[DHCP])
	}
}

// TestEveryClassCanBeLimited sets each key of the configuration, and finds it in the class of that name;
// what the schema tells of the default is the default.
func TestEveryClassCanBeLimited(t *testing.T) {
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Guard]()) {
		fields[f.Tag.Get("yaml")] = f
	}
	for c := Session; c < Classes; c++ {
		name := c.String()
		f, ok := fields[name]
		if !ok {
			t.Errorf("fast-path.guard has no %s", name)
			continue
		}
		n := 123_456
		cfg := &config.Config{}
		reflect.ValueOf(&cfg.FastPath.Guard).Elem().FieldByIndex(f.Index).Set(reflect.ValueOf(&config.GuardLimit{PerSecond: &n}))
		for other, b := range Render(cfg, 1).Budgets {
			if (b.PerSecond == n) != (Class(other) == c) {
				t.Errorf("%s sets %v to %d", name, Class(other), b.PerSecond)
			}
		}
		told, doc := classes[c].budget, f.Tag.Get("doc")
		for _, n := range []int{told.PerSecond, told.PerSource} {
			if n != 0 && !strings.Contains(doc, fmt.Sprintf(" %d ", n)) {
				t.Errorf("%s: the schema says %q, the default is %+v", name, doc, told)
			}
		}
		if strings.Contains(doc, "each CPU") != (classes[c].perCPU && told.PerSecond > 0) {
			t.Errorf("%s: the schema says %q, for each CPU: %v", name, doc, classes[c].perCPU)
		}
		if c.Text() == "" || c.String() == "" {
			t.Errorf("class %d has no words", c)
		}
	}
}

func TestSet(t *testing.T) {
	controls, budgets := make([]byte, 4096), make([]byte, 4096)
	s, err := Open(controls, budgets)
	if err != nil {
		t.Fatal(err)
	}
	secret := s.control.multiplier
	want := Settings{On: true, Ports: 4}
	want.Budgets[ICMP] = Budget{PerSecond: 1000, PerSource: 20}
	s.Set(want)
	got := s.budgets[ICMP]
	if got.interval != 1_000_000 || got.burst != uint64(250*time.Millisecond)-1_000_000 {
		t.Errorf("1000 a second: %d ns a packet, %d ns ahead", got.interval, got.burst)
	}
	if got.portInterval != 4_000_000 || got.portBurst != uint64(250*time.Millisecond)-4_000_000 {
		t.Errorf("one of four ports has %d ns a packet, %d ns ahead for itself", got.portInterval, got.portBurst)
	}
	// A quarter of a second is five packets: ten pass at once even so.
	if got.sourceInterval != 50_000_000 || got.sourceBurst != 450_000_000 {
		t.Errorf("20 a second: %d ns a packet, %d ns ahead", got.sourceInterval, got.sourceBurst)
	}
	if s.budgets[TTL].interval != 0 || s.control.on != 1 {
		t.Errorf("no limit: %+v, on %d", s.budgets[TTL], s.control.on)
	}
	s.budgets[ICMP].paid = 77
	again, err := Open(controls, budgets)
	if err != nil {
		t.Fatal(err)
	}
	again.Set(Settings{})
	if again.control.on != 0 || again.budgets[ICMP].interval != 0 || again.budgets[ICMP].paid != 77 {
		t.Errorf("off: %+v, on %d", again.budgets[ICMP], again.control.on)
	}
	if again.control.multiplier != secret || secret[0]&1 == 0 || secret[1]&1 == 0 {
		t.Errorf("secret %x, then %x: it is odd and stays", secret, again.control.multiplier)
	}
	if _, err := Open(controls[:8], budgets); err == nil {
		t.Error("memory that is too small was taken")
	}
	if unsafe.Sizeof(budget{}) != 64 || unsafe.Sizeof(control{}) != 72 {
		t.Errorf("a budget of %d bytes, control of %d", unsafe.Sizeof(budget{}), unsafe.Sizeof(control{}))
	}
}

func TestObserve(t *testing.T) {
	got := ICMP.Observe([]Tally{{1, 2, 3}, {10, 20, 30}}, Budget{1000, 100})
	if got.Class != "icmp" || got.Passed != 11 || got.Dropped != 55 || got.OverSource != 22 || got.Hint == "" {
		t.Errorf("%+v", got)
	}
}

func TestPeerKey(t *testing.T) {
	if got := (Peer{Address: netip.MustParseAddr("192.0.2.2")}).Key(0); !reflect.DeepEqual(got[10:16], []byte{0xff, 0xff, 192, 0, 2, 2}) {
		t.Errorf("key % x, want an IPv4-mapped address", got)
	}
	if (Peer{BGP: true}).Value() != 3 || (Peer{}).Value() != 2 {
		t.Error("flags")
	}
}
