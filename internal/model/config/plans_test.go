// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// plansFile is a router with one plan and one sorting interface; the rest is put in place of the words.
const plansFile = `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24], LAN}
  wan: {}
  vlan7: {vlan: {parent: wan, id: 7}}
plans: PLANS
subscribers: SUBSCRIBERS
`

// TestPlansRefused: what can't be is refused at its line, with what to write instead.
func TestPlansRefused(t *testing.T) {
	const sorts, basic = "subscribers: on", "{basic: {down: 50Mbit, up: 10Mbit}}"
	for _, c := range []struct{ lan, plans, subscribers, says string }{
		{sorts, basic, "{a: {plan: basik, addresses: [192.0.2.9/32]}}", "did you mean basic?"},
		{sorts, "{}", "{a: {plan: basic, addresses: [192.0.2.9/32]}}", "a section plans"},
		{sorts, basic, "{a: {plan: basic, addresses: [192.0.2.9/32]}, b: {plan: basic, addresses: [192.0.2.9/32]}}", "192.0.2.9/32 is subscriber a's already"},
		{sorts, basic, "{a: {plan: basic, addresses: [192.0.2.9/32, 192.0.2.9/32]}}", "subscriber a's already"},
		{sorts, basic, `{a: {plan: basic, mac: ["02:00:00:00:00:01"]}, b: {plan: basic, mac: ["02:00:00:00:00:01"]}}`, "02:00:00:00:00:01 is subscriber a's already"},
		{sorts, basic, "{a: {plan: basic, addresses: [192.0.2.9]}}", "192.0.2.9/32"},
		{sorts, basic, `{a: {plan: basic, addresses: ["fe80::1/128"]}}`, "no subscriber's address"},
		{sorts, basic, "{a: {plan: basic}}", "addresses, mac or interface"},
		{sorts, basic, "{a: {plan: basic, interface: lan}}", "it is shared"},
		{sorts, basic, "{a: {plan: basic, interface: wam}}", "did you mean wan?"},
		{sorts, basic, "{a: {plan: basic, interface: wan, addresses: [192.0.2.9/32]}}", "subscribers: on at that interface"},
		{sorts, basic, "{a: {plan: basic, interface: wan}, b: {plan: basic, interface: wan}}", "is subscriber a's already"},
		{sorts, basic, "{a: {plan: basic, interface: lo}}", "no interface"},
		{sorts, basic, "{}", "a section subscribers"},
		{"disabled: off", basic, "{a: {plan: basic, addresses: [192.0.2.9/32]}}", "subscribers: on at the interface that leads to them"},
		{sorts + ", shape: {up: 1Mbit}", basic, "{a: {plan: basic, addresses: [192.0.2.9/32]}}", "wait twice"},
		{sorts, "{basic: {down: 1kbit, up: 10Mbit}}", "{a: {plan: basic, addresses: [192.0.2.9/32]}}", "64kbit to 1Tbit"},
		{sorts, "{basic: {down: 50Mbit}}", "{a: {plan: basic, addresses: [192.0.2.9/32]}}", "up"},
		{sorts, "{basic: {down: 1Mbit, up: 1Mbit, burst: 1m}}", "{a: {plan: basic, addresses: [192.0.2.9/32]}}", "1ms to 10s"},
		{sorts, "{basic: {down: 1Mbit, up: 1Mbit, queue: red}}", "{a: {plan: basic, addresses: [192.0.2.9/32]}}", "fq-codel"},
		{sorts, basic, "{" + strings.Repeat("n", 44) + ": {plan: basic, addresses: [192.0.2.9/32]}}", "1 to 43"},
	} {
		text := strings.NewReplacer("LAN", c.lan, "PLANS", c.plans, "SUBSCRIBERS", c.subscribers).Replace(plansFile)
		cfg, err := Parse("test.yaml", []byte(text))
		if err == nil {
			err = Check(cfg, Secrets{})
		}
		if err == nil {
			t.Errorf("taken:\n%s", text)
			continue
		}
		if said := err.Error(); !strings.Contains(said, c.says) || !strings.Contains(said, "^") {
			t.Errorf("nothing of %q with a caret:\n%s", c.says, said)
		}
	}
}

// TestPlansTaken: addresses in networks of others, subscribers by MAC address, and an interface that is one subscriber's.
func TestPlansTaken(t *testing.T) {
	text := strings.NewReplacer("LAN", "subscribers: on", "PLANS", "{basic: {down: 50Mbit, up: 10Mbit}}",
		"SUBSCRIBERS", `{a: {plan: basic, addresses: [198.51.100.0/24, "2001:db8::/56"]}, b: {plan: basic, addresses: [198.51.100.9/32], interface: lan}, c: {plan: basic, mac: ["02:00:00:00:00:01"]}, d: {plan: basic, interface: vlan7}}`).Replace(plansFile)
	cfg, err := Parse("test.yaml", []byte(text))
	if err == nil {
		err = Check(cfg, Secrets{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if all := cfg.QueuedByPlans(); len(all) != 2 || !all["lan"] || !all["vlan7"] {
		t.Errorf("queued by plans: %v", all)
	}
	if p := cfg.Plans["basic"]; p.Queue != "auto" || p.Burst.Std().Milliseconds() != 10 {
		t.Errorf("defaults: %+v", p)
	}
}
