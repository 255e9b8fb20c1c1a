// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"strings"
	"testing"

	"minne/internal/model/config"
)

// A preview names what no rule shows: translations, segment sizes, limits, sets, zones.
func TestPlanNamesTranslations(t *testing.T) {
	render := func(text string) Desired {
		t.Helper()
		cfg, err := config.Parse("test.yaml", []byte(`version: 1
interfaces:
  wan: {addresses: [198.51.100.2/30], zone: wan}
  lan: {addresses: [192.168.77.1/24], zone: lan}
  dmz: {addresses: [192.168.78.1/24]`+text))
		must(t, err)
		d, err := Render(cfg, nil, t.TempDir())
		must(t, err)
		must(t, d.Broken)
		return d
	}
	f := fresh(t)
	before := render(`, zone: dmz}
firewall:
  sets: {blocked: {prefixes: [203.0.113.0/24]}, office: {addresses: [192.0.2.1]}}
  policies: [{from: lan, to: wan, default: permit}, {from: wan, to: lan, rules: ["deny any @blocked any"]}, {from: wan, to: lan, rules: ["permit tcp @office any 22"]}]
nat:
  - {from: lan, to: wan, masquerade: true}
  - {from: wan, forward: {protocol: tcp, port: "443", target: 192.168.77.10}}
`)
	after := render(`, zone: lan}
firewall:
  mss-clamp: on
  sets: {blocked: {prefixes: [203.0.112.0/24]}, office: {addresses: [192.0.2.1]}}
  policies: [{from: lan, to: wan, default: permit}, {from: wan, to: lan, rules: ["deny any @blocked any"]}, {from: wan, to: lan, rules: ["permit tcp @office any 22"]}]
nat:
  - {from: lan, to: wan, pool: [198.51.100.64/28]}
  - {from: wan, forward: {protocol: tcp, port: "443", target: 192.168.77.11}}
limits: [{from: lan, open-connections: 200}]
`)
	must(t, f.Apply(t.Context(), before))
	changes, err := f.Plan(t.Context(), after)
	must(t, err)
	if len(changes) != 1 {
		t.Fatalf("changes %v", changes)
	}
	text := strings.Join(changes[0].Details, "\n")
	for _, want := range []string{
		"+ NAT lan to wan, IPv4: source from the pool 198.51.100.64/28", "- NAT lan to wan, IPv4: masquerade",
		"+ NAT wan to the router's addresses tcp 443: forward to 192.168.77.11", "- NAT wan to the router's addresses tcp 443: forward to 192.168.77.10",
		"+ segment sizes of TCP are lowered (mss-clamp)", "+ limit lan: open connections 200",
		"~ set blocked of 1 prefixes", "- zone dmz (dmz)", "+ zone lan (dmz, lan)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the preview does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "office of") || strings.Contains(text, "zone wan") {
		t.Errorf("the preview says what does not change:\n%s", text)
	}
	if got := fmt.Sprint(beyondRules(before.Policy, before.Policy)); got != "[]" {
		t.Errorf("a policy differs from itself: %s", got)
	}
}
