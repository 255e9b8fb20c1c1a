// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/model/config"
)

var update = flag.Bool("update", false, "write docs/reference/firewall-rules.md anew")

func TestReference(t *testing.T) {
	const page = "../../../docs/reference/firewall-rules.md"
	if *update {
		if err := os.WriteFile(page, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil || string(want) != Reference() {
		t.Errorf("%s is out of date (%v); write it with: go test ./internal/model/policy -run TestReference -update", page, err)
	}
}

// TestGrammarOnce keeps the grammar of rule.go and that of the page the same.
func TestGrammarOnce(t *testing.T) {
	source, err := os.ReadFile("rule.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(referenceHead, "\n") {
		name, _, ok := strings.Cut(line, " = ")
		if ok && !strings.HasPrefix(name, "|") && !strings.Contains(string(source), "//\t"+strings.Split(line, ";")[0]) {
			t.Errorf("rule.go doesn't say %q", line)
		}
	}
}

const head = `version: 1
interfaces:
  lan0: {zone: lan, addresses: [192.0.2.1/24]}
  wan0: {zone: wan, addresses: [198.51.100.1/24]}
  dmz0: {zone: dmz, addresses: [203.0.113.1/24]}
`

const sets = `firewall:
  sets:
    web: {addresses: [203.0.113.10, "2001:db8::10"]}
    noc: {prefixes: [192.0.2.0/28]}
    high: {ports: [8000-8080, https]}
  policies:
`

func compileText(t *testing.T, text string) (Result, error) {
	t.Helper()
	cfg, err := config.Parse("router.yaml", []byte(text))
	if err == nil {
		err = config.Check(cfg, config.Secrets{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return Compile(cfg, nil, t.TempDir())
}

// one compiles a policy from wan to dmz with one rule.
func one(t *testing.T, rule string) (Result, error) {
	t.Helper()
	return compileText(t, head+sets+"    - {from: wan, to: dmz, rules: ['"+rule+"']}\n")
}

// The examples make policies, and nothing about them is odd. With every default written out they are the same.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../docs/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %v %v", files, err)
	}
	for _, file := range files {
		cfg, _, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		complete, err := config.Parse(file, config.Effective(cfg))
		if err != nil {
			t.Fatal(err)
		}
		for _, cfg := range []*config.Config{cfg, complete} {
			if r, err := Compile(cfg, nil, filepath.Dir(file)); err != nil || len(r.Warnings) > 0 {
				t.Errorf("%s: %v %v", file, err, r.Warnings)
			}
		}
	}
}

// Wrong rules are refused at the word that is wrong: the column counts from the
// beginning of the rule.
func TestWrongRules(t *testing.T) {
	for _, c := range []struct {
		rule   string
		column int
		words  string
	}{
		{"allow tcp any any", 0, "did you mean permit?"},
		{"permit", 6, "no protocol"},
		{"permit tpc any any 80", 7, "did you mean tcp?"},
		{"permit https any any", 7, `"https" is a service`},
		{"permit https any any", 7, "a protocol first"},
		{"permit tcp any @wbe 443", 15, "did you mean @web?"},
		{"permit tcp any @nothing 443", 15, "one of @high, @noc, @web"},
		{"permit tcp any @high 443", 15, "holds ports"},
		{"permit tcp any any @web", 19, "holds addresses"},
		{"permit tcp 443", 11, "instead of the source"},
		{"permit tcp any 192.0.2.1/24 80", 15, "did you mean 192.0.2.0/24?"},
		{"permit tcp any 192.0.2.1 htps", 25, "did you mean https?"},
		{"permit tcp any any 80-70", 19, "did you mean 70-80?"},
		{"permit tcp any any 80,70000", 22, "no port"},
		{"permit tcp any any 080", 19, "no port"},
		{"permit any any any 80", 19, "can't be followed by"},
		{"permit icmp any any echo", 20, "echo"},
		{"permit icmp any 2001:db8::1", 16, "other address family"},
		{"permit tcp 192.0.2.1 2001:db8::1", 21, "other address family"},
		{"permit tcp any from", 19, "from without ports"},
		{"permit icmp any from 7 any", 16, "has no ports"},
		{"permit tcp any any 80 lgo", 22, "did you mean log?"},
		{"permit tcp any any 80 log log", 26, "twice"},
		{"deny tcp any any 80 limit 5/s", 20, "can't have a limit"},
		{"permit tcp any any 80 limit 5/second", 28, "did you mean 5/s?"},
		{"permit tcp any any 80 limit 0/s", 28, "not a rate"},
		{"permit tcp any any 80 name", 26, "name without a name"},
		{`permit tcp any any 80 name "open`, 27, "no end"},
		{"permit tcp any,192.0.2.1 any", 11, "can't be in a list"},
		{"permit tcp self self 22", 16, "from the router to the router"},
	} {
		_, err := one(t, c.rule)
		wrong, ok := err.(*config.Error)
		if !ok || len(wrong.Problems) != 1 {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		p := wrong.Problems[0]
		const begin = len("    - {from: wan, to: dmz, rules: ['") + 1
		if p.Line != 12 || p.Column-begin != c.column || !strings.Contains(p.String(), c.words) {
			t.Errorf("%s: want column %d (%d) and %q, got\n%v", c.rule, begin+c.column, c.column, c.words, p)
		}
	}
}

// What else is refused about policies and translations.
func TestWrongPolicies(t *testing.T) {
	for name, c := range map[string]struct{ text, words string }{
		"no zones":          {"version: 1\ninterfaces: {lan: {}}\nfirewall: {}\n", "no interface has a zone"},
		"unknown zone":      {head + "firewall: {policies: [{from: lna, to: wan, default: permit}]}", "did you mean lan?"},
		"undescribed zone":  {head + "zones: {lan: {}, wam: {}, dmz: {}}\n", `there is no zone "wan" under zones`},
		"reserved":          {"version: 1\ninterfaces: {e0: {zone: self}}\n", "self is a reserved word"},
		"zone twice":        {head + "firewall: {policies: [{from: [lan, lan], to: wan, default: permit}]}", "twice"},
		"nothing said":      {head + "firewall: {policies: [{from: lan, to: wan}]}", "the policy is empty"},
		"mixed state":       {head + "firewall: {policies: [{from: lan, to: wan, default: permit}, {from: any, to: wan, stateless: true, default: deny}]}", "only one of them is stateless"},
		"way back":          {head + "firewall: {policies: [{from: lan, to: wan, default: permit, stateless: true}, {from: wan, to: lan, default: deny}]}", "keeps state, but the way back"},
		"mixed set":         {head + "firewall: {sets: {x: {ports: [80], addresses: [192.0.2.1]}}}", "ports and addresses"},
		"list is missing":   {head + "firewall: {sets: {x: {file: gone.txt}}}", "there is no file"},
		"rules are missing": {head + "firewall: {policies: [{from: lan, to: wan, rules-file: gone.csv}]}", "there is no file"},
		"two kinds of NAT":  {head + "nat: [{from: lan, to: wan, masquerade: true, pool: [198.51.100.64/28]}]", "exactly one"},
		"NAT twice":         {head + "nat: [{from: lan, to: wan, masquerade: true}, {from: lan, to: wan, pool: [198.51.100.64/28]}]", "translates all of these"},
		"one port, two hosts": {head + "nat: [{from: wan, forward: {protocol: tcp, port: 80-90, target: 203.0.113.10}}, {from: wan, forward: {protocol: tcp, port: 85, target: 203.0.113.11}}]",
			"forwards this port already"},
		"unequal sizes":     {head + oneToOne("203.0.113.16/29", "192.0.2.16/28", ""), "did you mean 192.0.2.16/29?"},
		"unequal families":  {head + oneToOne("203.0.113.16/29", "2001:db8::/29", ""), "different families"},
		"no hosts":          {head + oneToOne("224.0.0.0/24", "192.0.2.0/24", ""), "not a network of hosts"},
		"an outside twice":  {head + oneToOne("198.51.100.16/29", "192.0.2.16/29", "{from: dmz, to: wan, one-to-one: {outside: 198.51.100.16/30, inside: 203.0.113.16/30}}"), "nat 1 (router.yaml:7) translates 198.51.100.16/29 already, to 192.0.2.16/29"},
		"an inside twice":   {head + oneToOne("198.51.100.16/29", "192.0.2.16/29", "{from: lan, to: wan, one-to-one: {outside: 198.51.100.32/28, inside: 192.0.2.16/28}}"), "have other addresses already, in 198.51.100.16/29"},
		"outside in a pool": {head + oneToOne("198.51.100.16/29", "192.0.2.16/29", "{from: dmz, to: wan, pool: [198.51.100.0/27]}"), "gives 198.51.100.16/29 to single hosts"},
		"late forward":      {head + oneToOne("198.51.100.16/29", "192.0.2.16/29", "{from: wan, forward: {protocol: tcp, address: 198.51.100.17, port: 80, target: 203.0.113.10}}"), "takes all connections to 198.51.100.17 already"},
		"late one-to-one":   {head + "nat: [{from: lan, to: wan, masquerade: true}, {from: lan, to: wan, one-to-one: {outside: 198.51.100.16/29, inside: 192.0.2.16/29}}]", "the narrower translation first"},
		"no time":           {head + "firewall: {schedules: {x: {}}}", "has no time"},
		"no day":            {head + "firewall: {schedules: {x: {days: [monday]}}}", "did you mean mon?"},
		"no clock":          {head + "firewall: {schedules: {x: {from: 8.30}}}", "did you mean 08:30?"},
		"no end":            {head + "firewall: {schedules: {x: {from: 08:00, to: 08:00}}}", "ends when it begins"},
		"no schedule":       {head + "firewall: {schedules: {lessons: {days: mon}}, policies: [{from: lan, to: wan, rules: [deny any schedule lesson]}]}", "did you mean lessons?"},
		"helper twice":      {head + "firewall: {helpers: [ftp, ftp]}", "ftp is given twice"},
		"NAT without state": {head + "nat: [{from: lan, to: wan, masquerade: true}]\nfirewall: {policies: [{from: lan, to: wan, stateless: true, default: permit}]}", "without state"},
		"limit of nothing":  {head + "limits: [{from: lan}]", "has no limit"},
		"limit twice":       {head + "limits: [{from: lan, open-connections: 5}, {from: any, open-connections: 6}]", "has limits already"},
		"no SYN rate":       {head + "limits: [{from: lan, syn-to-host: 5}]", "\"5\" is not a rate"},
		"not a rate":        {head + "limits: [{from: lan, new-connections: 5/sec}]", "did you mean 5/s?"},
		"zone of a VRF":     {"version: 1\ninterfaces: {red: {vrf: {table: 5, interfaces: [a]}, zone: lan}, a: {zone: lan}}\n", "belongs to no zone"},
		"table of a VRF":    {"version: 1\ninterfaces: {red: {vrf: {table: 70000, interfaces: [a]}}, a: {zone: lan}}\n", "table 70000 is too high"},
		"forward of a VRF": {"version: 1\ninterfaces: {red: {vrf: {table: 5, interfaces: [a]}}, a: {zone: wan, addresses: [10.0.0.1/24]}}\n" +
			"nat: [{from: wan, forward: {protocol: tcp, port: 80, target: 10.0.0.2}}]", "a is in a VRF, so the address"},
		"other family": {head + "nat: [{from: wan, forward: {protocol: tcp, address: 198.51.100.1, port: 80, target: '2001:db8::1'}}]", "different families"},
	} {
		if _, err := compileText(t, c.text); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: want %q, got %v", name, c.words, err)
		}
	}
}

// oneToOne is a one-to-one translation, and another behind it.
func oneToOne(outside, inside, second string) string {
	text := fmt.Sprintf("nat:\n  - {from: lan, to: wan, one-to-one: {outside: '%s', inside: '%s'}}\n", outside, inside)
	if second != "" {
		text += "  - " + second + "\n"
	}
	return text
}

// Within a zone all may pass, but not in one that is somebody else's, unless the operator says so.
func TestWithin(t *testing.T) {
	const nat = "nat: [{from: dmz, to: wan, %s}]\n"
	for _, c := range []struct {
		text, within string
		wan, dmz     Action
		words        string
	}{
		{"masquerade: true", "", Deny, Permit, ""},
		{"pool: [198.51.100.64/28]", "", Deny, Permit, ""},
		{"masquerade: true", "within: permit", Permit, Permit, "anybody in zone wan may use this router"},
		{"masquerade: true", "within: deny", Deny, Deny, ""},
		{"", "", Permit, Permit, ""},
		{"", "within: permit", Permit, Permit, ""},
	} {
		text := head + "firewall: {defaults: {" + c.within + "}}\n"
		if c.text != "" {
			text += fmt.Sprintf(nat, c.text)
		}
		r, err := compileText(t, text)
		if err != nil {
			t.Fatal(err)
		}
		of := func(zone string) Action {
			i := slices.IndexFunc(r.Policy.Zones, func(z Zone) bool { return z.Name == zone })
			return r.Policy.Pair(ZoneID(i), ZoneID(i)).Default
		}
		if of("wan") != c.wan || of("dmz") != c.dmz {
			t.Errorf("%q %q: within wan %v, dmz %v", c.text, c.within, of("wan"), of("dmz"))
		}
		if text := fmt.Sprint(r.Warnings); c.words == "" && len(r.Warnings) > 0 || !strings.Contains(text, c.words) {
			t.Errorf("%q %q: warnings %s", c.text, c.within, text)
		}
	}
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct{ text, words string }{
		"shadowed":     {"permit tcp any any 80-90\", \"deny tcp any @web 85 name x", `"permit tcp any any 80-90" (router.yaml:12) takes all that it matches, and does the opposite`},
		"not shadowed": {"permit tcp any @web 80\", \"permit tcp any any 80", ""},
		"limited":      {"permit tcp any any limit 1/s\", \"permit tcp any @web 80", ""},
		"sets move":    {"deny any @noc\", \"deny any 192.0.2.1", ""},
	} {
		r, err := compileText(t, head+sets+"    - {from: wan, to: dmz, rules: [\""+c.text+"\"]}\n")
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(r.Warnings)
		if c.words == "" && len(r.Warnings) > 0 || !strings.Contains(text, c.words) {
			t.Errorf("%s: want %q, got %s", name, c.words, text)
		}
	}
	r, err := compileText(t, head+"nat: [{from: wan, forward: {protocol: tcp, port: 80, target: 203.0.113.10}}]\n")
	if err != nil || !strings.Contains(fmt.Sprint(r.Warnings), "permit tcp any 203.0.113.10 80 in a policy from its zones to dmz") {
		t.Errorf("a forward without a rule: %v %v", r.Warnings, err)
	}
	for _, c := range []struct{ outside, inside, words string }{
		{"198.51.100.16/29", "192.0.2.16/29", ""},
		{"198.51.100.0/24", "192.0.2.0/24", "198.51.100.1 is the router's own address on wan0"},
		{"198.51.0.0/20", "10.51.0.0/20", ""},
		{"198.51.96.0/20", "10.51.0.0/20", "198.51.100.1 is the router's own address"},
	} {
		r, err := compileText(t, head+oneToOne(c.outside, c.inside, ""))
		if text := fmt.Sprint(r.Warnings); err != nil || c.words == "" && len(r.Warnings) > 0 || !strings.Contains(text, c.words) {
			t.Errorf("%s: want %q, got %v %v", c.outside, c.words, text, err)
		}
	}
}

// Files are read with their lines; broken ones are refused whole.
func TestFiles(t *testing.T) {
	const rules = "action,protocol,source,source-port,destination,port,options\n# the web\npermit,tcp,any,,@web,\"80,443\",name web\ndeny,any,,,,,log\n"
	compile := func(csv, list string, expect int, mode os.FileMode) (Result, error) {
		dir := t.TempDir()
		for name, text := range map[string]string{"rules.csv": csv, "list.txt": list} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
				t.Fatal(err)
			}
		}
		cfg, err := config.Parse("router.yaml", []byte(head+"firewall:\n  sets: {web: {file: list.txt}}\n"+
			fmt.Sprintf("  policies: [{from: wan, to: dmz, rules-file: rules.csv, expect-rows: %d}]\n", expect)))
		if err != nil {
			t.Fatal(err)
		}
		return Compile(cfg, nil, dir)
	}
	r, err := compile(rules, "192.0.2.1 # a host\n\n10.0.0.0/8\n10.1.0.0/16\n", 2, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Policy; len(p.Rules) != 2 || p.Rules[0].Text != "permit tcp any @web 80,443 name web" || p.Rules[0].Name != "web" || p.Rules[1].Log == nil ||
		!strings.HasSuffix(p.Rules[1].Place, "rules.csv:4") || fmt.Sprint(p.Sets[0].Prefixes) != "[10.0.0.0/8 192.0.2.1/32]" {
		t.Errorf("%+v", p)
	}
	for name, c := range map[string]struct {
		csv, list string
		expect    int
		mode      os.FileMode
		words     string
	}{
		"too few rows":  {rules, "", 3, 0o644, "has 2 rows, not 3"},
		"wrong word":    {strings.Replace(rules, "tcp,any", "tpc,any", 1), "", 2, 0o644, "rules.csv:3:8: there is no protocol \"tpc\""},
		"missing cell":  {strings.Replace(rules, "deny,any,", "deny,any", 1), "", 2, 0o644, "rules.csv:4:1: the line has another number of cells"},
		"open quote":    {strings.Replace(rules, `443"`, `443`, 1), "", 2, 0o644, "rules.csv:3:1: the line is not CSV"},
		"wrong column":  {strings.Replace(rules, "options", "option", 1), "", 2, 0o644, "did you mean options?"},
		"wrong element": {rules, "192.0.2.1\n10.0.0.1/8\n", 2, 0o644, "list.txt:2:1: 10.0.0.1/8 has host bits"},
		"secret":        {rules, "", 2, 0o600, "may not be read by everybody"},
		"empty":         {"", "", 1, 0o644, "has no rules"},
	} {
		if _, err := compile(c.csv, c.list, c.expect, c.mode); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: want %q, got %v", name, c.words, err)
		}
	}
}

// The reference's words on a policy that uses most of what there is.
func TestEvaluate(t *testing.T) {
	r, err := compileText(t, head+"routing: {bgp: {asn: 64500, peers: {isp: {address: 198.51.100.2, asn: 64501}}}}\nsystem: {router-id: 192.0.2.1}\n"+sets+`
    - {from: wan, to: dmz, rules: [permit tcp any @web 443, "reject tcp any @web"]}
    - {from: any, to: dmz, rules: [deny udp @noc any, permit udp any any @high]}
    - {from: [lan, dmz], to: [wan, self], rules: ["permit tcp @noc self 22", "deny any any 198.51.100.66", permit tcp any any 22], default: reject}
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in, out, from, to string
		protocol          uint8
		port              uint16
		state             State
		want              Action
		rule              string
	}{
		{"wan0", "dmz0", "8.8.8.8", "203.0.113.10", protoTCP, 443, New, Permit, "permit tcp any @web 443"},
		{"wan0", "dmz0", "2001:db8:9::1", "2001:db8::10", protoTCP, 443, New, Permit, "permit tcp any @web 443"},
		{"wan0", "dmz0", "8.8.8.8", "203.0.113.10", protoTCP, 80, New, Reject, "reject tcp any @web"},
		{"wan0", "dmz0", "8.8.8.8", "203.0.113.10", protoTCP, 80, Established, Permit, ""},
		{"wan0", "dmz0", "8.8.8.8", "203.0.113.10", protoTCP, 443, Invalid, Deny, ""},
		{"wan0", "dmz0", "8.8.8.8", "203.0.113.11", protoUDP, 8080, New, Permit, "permit udp any any @high"},
		{"lan0", "dmz0", "192.0.2.7", "203.0.113.11", protoUDP, 8080, New, Deny, "deny udp @noc any"},
		{"lan0", "dmz0", "192.0.2.70", "203.0.113.11", protoUDP, 8081, New, Deny, ""},
		{"lan0", "", "192.0.2.7", "192.0.2.1", protoTCP, 22, New, Permit, "permit tcp @noc self 22"},
		{"wan0", "", "192.0.2.7", "192.0.2.1", protoTCP, 22, New, Deny, ""},
		{"wan0", "", "198.51.100.2", "198.51.100.1", protoTCP, 179, New, Permit, "BGP peer isp"},
		{"wan0", "", "198.51.100.3", "198.51.100.1", protoTCP, 179, New, Deny, ""},
		{"lan0", "wan0", "192.0.2.7", "198.51.100.9", protoTCP, 22, New, Permit, "permit tcp any any 22"},
		{"lan0", "wan0", "192.0.2.7", "198.51.100.9", protoTCP, 23, New, Reject, "default reject"},
		{"lan0", "lan0", "192.0.2.7", "192.0.2.8", protoTCP, 23, New, Permit, ""},
		{"", "wan0", "198.51.100.1", "8.8.8.8", protoUDP, 53, New, Permit, ""},
		{"eth9", "wan0", "192.0.2.7", "8.8.8.8", protoUDP, 53, New, Deny, ""},
	} {
		v := Evaluate(r.Policy, Packet{In: c.in, Out: c.out, Source: netip.MustParseAddr(c.from), Destination: netip.MustParseAddr(c.to),
			Protocol: c.protocol, SourcePort: 40000, DestPort: c.port, HopLimit: 64}, c.state)
		rule := ""
		if v.Rule != nil {
			rule = v.Rule.Text
		}
		if v.Action != c.want || rule != c.rule {
			t.Errorf("%+v: %v by %q", c, v.Action, rule)
		}
	}
}

// Schedules over midnight and over the end of the week, and the reference by the clock.
func TestSchedules(t *testing.T) {
	r, err := compileText(t, head+`firewall:
  schedules:
    lessons: {days: [mon-tue, thu], from: 08:00, to: 13:00}
    nights: {days: fri-sat, from: 22:00, to: 06:00}
    weekend: {days: sat-sun}
  policies:
    - {from: lan, to: wan, rules: [deny any schedule lessons, "permit tcp any any 80 schedule nights", permit udp any any 53 schedule weekend]}
`)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.Policy.Rules[1].Schedule.Windows); got != "[{0 360} {8520 9000} {9960 10080}]" || len(r.Warnings) > 0 {
		t.Errorf("nights are %s; %v", got, r.Warnings)
	}
	zone := time.FixedZone("x", 3600)
	for at, want := range map[string]string{
		"Mon 07:59": "", "Mon 08:00": "deny any schedule lessons", "Mon 12:59": "deny any schedule lessons", "Mon 13:00": "", "Wed 09:00": "",
		"Fri 22:00": "permit tcp any any 80 schedule nights", "Sun 05:59": "permit tcp any any 80 schedule nights", "Sun 06:00": "", "Mon 00:00": "",
	} {
		when, err := time.ParseInLocation("Mon 15:04", at, zone)
		if err != nil {
			t.Fatal(err)
		}
		for day := range 7 { // time.Parse reads the word for the day and forgets it
			if d := time.Date(2026, 11, 22+day, when.Hour(), when.Minute(), 0, 0, zone); d.Format("Mon") == at[:3] {
				when = d
			}
		}
		v := Evaluate(r.Policy, Packet{In: "lan0", Out: "wan0", Source: netip.MustParseAddr("192.0.2.7"), Destination: netip.MustParseAddr("8.8.8.8"),
			Protocol: protoTCP, SourcePort: 40000, DestPort: 80, HopLimit: 64, At: when}, New)
		if v.Rule == nil && want != "" || v.Rule != nil && v.Rule.Text != want {
			t.Errorf("%s: %+v, want %q", at, v.Rule, want)
		}
	}
}
