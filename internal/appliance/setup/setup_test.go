// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"bytes"
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"minne/internal/base/instance"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DMROe4n8DRQ2eWrsuoqFhVoUyYGIPRB pat@laptop"

var ports = []Port{
	{Name: "enp1s0", MAC: "52:54:00:00:00:01", Driver: "igb", Bus: "0000:01:00.0", Cable: true, Speed: 1000},
	{Name: "enp2s0", MAC: "52:54:00:00:00:02", Driver: "igb", Bus: "0000:02:00.0", Cable: true, Speed: 2500, Network: netip.MustParsePrefix("192.168.77.0/24")},
	{Name: "enp10s0", MAC: "52:54:00:00:00:0a", Driver: "r8169", Bus: "0000:0a:00.0"},
}

// talk has a conversation and returns the answers with the screen.
func talk(t *testing.T, input string, of []Port) (Answers, string, error) {
	t.Helper()
	return talkWith(t, input, of, nil)
}

// talkWith is the same on a machine that has a radio, or none.
func talkWith(t *testing.T, input string, of []Port, radio *Radio) (Answers, string, error) {
	t.Helper()
	var out bytes.Buffer
	a, err := converse(t.Context(), strings.NewReader(input), &out).screen(Answers{radio: radio}, of)
	return a, out.String(), err
}

func golden(t *testing.T, name, made string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != made {
		t.Errorf("%v: %s", err, config.Diff(want, []byte(made), file, "made"))
	}
}

// Each way through the questions gives a configuration that is right, policy and all.
func TestCompose(t *testing.T) {
	secrets, err := config.ParseSecrets("secrets.yaml", []byte(adminSecret+`: "$6$abcdefgh$bp46WUxDu2cphMRE0PvVJlqas2imuSq186YS793XKfmqn9XUEL17HECskUTZInaNigNndLLYc7A6yWBmFEFn3/"
`+providerSecret+`: "s3cret"
`+wifiSecret+`: "s3cret-in-the-air"`))
	if err != nil {
		t.Fatal(err)
	}
	for name, input := range map[string]string{
		"dhcp":     "\n\n\n\n\n\n",
		"separate": "\n\n\nseparate\n\n\n",
		"fixed":    "3\n198.51.100.2/30 198.51.100.1 198.51.100.53 9.9.9.9\n10.1.0.1/22\n\nattic\n" + key + "\n",
		"pppoe":    "1\npppoe\nline-4711@isp.example\ns3cret\n\n\n\n\n",
		"vlan":     "1\npppoe 7\n\nline-4711@isp.example\ns3cret\n\n\n\n\n", // a user's name is needed
		"wifi":     "\n\n\n\nHome \"7\"\nshort\ns3cret-in-the-air\nus\n\n\n\n",
		"wifi-own": "\n\n\n\nHome\ns3cret-in-the-air\nGermany\nDE\nseparate\n\n\n",
		"password": "enp1s0\ndhcp\n192.168.5.254/24\n\nAttic-2\npassword\n",
	} {
		var radio *Radio
		if strings.HasPrefix(name, "wifi") {
			radio = &Radio{Name: "phy0", MAC: "52:54:00:00:00:0f", Fast: name == "wifi", Wide: name == "wifi"}
		}
		a, screen, err := talkWith(t, input, ports, radio)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, screen)
			continue
		}
		if strings.Contains(screen+Compose(a, ports), "s3cret") {
			t.Errorf("%s: the password is in the configuration or on the screen", name)
		}
		text := Compose(a, ports)
		cfg, err := config.Parse(name, []byte(text))
		if err == nil {
			err = config.Check(cfg, secrets)
		}
		if err == nil {
			_, err = policy.Compile(cfg, services.Openings(cfg), ".")
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		for _, w := range config.Warnings(cfg) {
			t.Errorf("%s: %v", name, w)
		}
		golden(t, name+".yaml", text)
		golden(t, name+".screen", screen)
	}
}

// The screen fits a terminal of 80 by 24 with the ports of a usual machine.
func TestScreenFits(t *testing.T) {
	_, screen, err := talk(t, "\n\n\n\n\n\n", ports)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimPrefix(screen, clearScreen), "\n")
	if len(lines) > 24 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if len([]rune(l)) > 80 && !strings.Contains(l, "]: ") { // answers of Enter leave the questions on one line
			t.Errorf("%d characters: %s", len([]rune(l)), l)
		}
	}
}

// A port behind which a provider dials is the WAN, by PPPoE; one that has a DHCP server as well may have either.
func TestPPPoEIsOffered(t *testing.T) {
	found := slices.Clone(ports)
	found[2].PPPoE = true
	a, screen, err := talk(t, "\n\nline\ns3cret\n\n\n\n\n", found)
	if err != nil || a.WAN != "enp10s0" || a.WANAddress != byPPPoE || !strings.Contains(screen, "PPPoE\n") || !strings.Contains(screen, "[pppoe]: ") {
		t.Errorf("%+v, %v\n%s", a, err, screen)
	}
	found[2].PPPoE, found[1].PPPoE = false, true
	if a, screen, err = talk(t, "\n\n\n\n\n\n", found); err != nil || a.WAN != "enp2s0" || a.WANAddress != byDHCP || !strings.Contains(screen, "PPPoE, DHCP 192.168.77.0/24") {
		t.Errorf("%+v, %v\n%s", a, err, screen)
	}
}

// Wrong answers are told, and asked for again.
func TestWrongAnswers(t *testing.T) {
	for wrong, told := range map[string]string{
		"9\n\n\n\n\n\n\n":                                                   "expected a number from 1 to 3",
		"\npppoe 9999\n\n\n\n\n\n\n":                                        "a VLAN from 1 to 4094",
		"\n198.51.100.2\n\n\n\n\n\n":                                        "expected dhcp, pppoe, or an address with its length",
		"\n198.51.100.2/30\n\n\n\n\n\n":                                     "needs the provider's router",
		"\n198.51.100.2/30 203.0.113.1\n\n\n\n\n\n":                         "is not another host in 198.51.100.0/30",
		"\n198.51.100.2/30 198.51.100.1\n\n\n\n\n\n":                        "DNS servers",
		"\ndhcp 198.51.100.1\n\n\n\n\n\n":                                   "with dhcp and pppoe the provider assigns them",
		"\n\n10.0.0.0/24\n\n\n\n\n":                                         "expected this router's address",
		"\n\n10.0.0.1/30\n\n\n\n\n":                                         "length of 16 to 28",
		"\n192.168.77.9/24 192.168.77.1 9.9.9.9\n192.168.77.2/24\n\n\n\n\n": "overlaps the provider's network",
		"\n\n\n\nmy router\n\n\n\n":                                         "expected letters, digits and dashes",
		"\n\n\n\n\nssh-ed25519 AAAA\n\n\n":                                  "cut off or mistyped",
		"\n\n\nhub\n\n\n\n":                                                 "expected bridge or separate",
	} {
		if _, screen, err := talk(t, wrong, ports); err != nil || !strings.Contains(screen, told) {
			t.Errorf("%q: %v; want %q in\n%s", wrong, err, told, screen)
		}
	}
	if _, _, err := talk(t, "\n\n", ports); err != errGone {
		t.Errorf("end of the console: %v", err)
	}
	if _, _, err := talk(t, "\n\n\n\n\n", ports[:1]); err == nil || !strings.Contains(err.Error(), "needs two ports, found: enp1s0") {
		t.Errorf("one port: %v", err)
	}
}

func TestReadAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers.yaml")
	for text, want := range map[string]string{
		"wan: enp2s0\n": "",
		"wan-address: 198.51.100.2/30\nwan-gateway: 198.51.100.1\nwan-dns: [9.9.9.9]\nlan: 10.0.0.1/24\nhostname: attic\nssh-keys: [\"" + key + "\"]\n": "",
		"wam: eth0\n":          "did you mean wan?",
		"wan-address: pppoe\n": "needs the provider's user name and password",
		"pppoe-vlan: 7\n":      "belong to wan-address: pppoe",
		"wan-address: pppoe\npppoe-user: line\npppoe-password: s3cret\npppoe-vlan: 7\n": "",
		"wan-address: 198.51.100.2/30\n":                                                "needs the provider's router",
		"lan: 10.0.0.1\n":                                                               "answers.yaml:1:6",
		"lan-ports: separate\n":                                                         "",
		"lan-ports: hub\n":                                                              "expected bridge or separate",
		"ssh: key\n":                                                                    "there is no key that could log in",
		"ssh-keys: [nonsense]\n":                                                        "is not a public key",
		"wan-dns: [9.9.9.9]\nhostname: a b\n":                                           "expected letters, digits and dashes",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		a, err := ReadAnswers(file)
		if want == "" && err == nil {
			_, err = a.complete(ports)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

func TestPools(t *testing.T) {
	for own, want := range map[string]string{
		"192.168.77.1/24":   "192.168.77.128-192.168.77.254",
		"192.168.77.254/24": "192.168.77.128-192.168.77.253",
		"192.168.77.200/24": "192.168.77.1-192.168.77.127",
		"10.0.0.1/16":       "10.0.128.0-10.0.255.254",
		"10.0.0.17/28":      "10.0.0.24-10.0.0.30",
	} {
		first, last := pool(netip.MustParsePrefix(own))
		if got := first.String() + "-" + last.String(); got != want {
			t.Errorf("%s: %s, want %s", own, got, want)
		}
	}
}

func TestPassword(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		p := newPassword()
		if !regexp.MustCompile(`^([a-z2-7]{4}-){3}[a-z2-7]{4}$`).MatchString(p) || seen[p] {
			t.Errorf("%q", p)
		}
		seen[p] = true
	}
	// As openssl passwd -6 and every other program makes it: the same salt gives the same hash.
	text, err := hash(t.Context(), "hello")
	if err != nil || !regexp.MustCompile(`^\$6\$[./A-Za-z0-9]{8,16}\$[./A-Za-z0-9]{86}$`).MatchString(text) {
		t.Errorf("%q, %v", text, err)
	}
	file := filepath.Join(t.TempDir(), "secrets.yaml")
	if err := os.WriteFile(file, []byte("isp: one\nadmin-password: old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := withSecret(file, "", adminSecret, "$6$new"); err != nil || got != "isp: one\nadmin-password: \"$6$new\"\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// The password is shown once, and what is kept is its hash. On a host without the user, or that is
// others' too, none is shown: nobody would have it.
func TestPasswordOfAUserThatExists(t *testing.T) {
	for name, a := range map[string]Answers{"own": {}, "no user": {hostless: true}, "on a host of others": {guest: true}} {
		root := t.TempDir()
		standard, err := instance.New("lab")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		o := Options{Instance: standard.Under(root), Out: &out}
		if a, err = a.complete(ports); err != nil {
			t.Fatal(err)
		}
		if err := o.make(t.Context(), a, ports); err != nil {
			t.Fatal(err)
		}
		shown := regexp.MustCompile(`password  ([a-z2-7-]{19})`).FindStringSubmatch(out.String())
		text, err := os.ReadFile(o.Instance.Config)
		if err != nil {
			t.Fatal(err)
		}
		secrets, err := os.ReadFile(o.Instance.Secrets)
		if name != "own" {
			if shown != nil || !os.IsNotExist(err) || strings.Contains(string(text), "admin:") {
				t.Errorf("%s: %v\n%s\n%s", name, err, &out, text)
			}
			continue
		}
		hashed := regexp.MustCompile(`^admin-password: "(\$6\$([^$]+)\$.+)"\n$`).FindStringSubmatch(string(secrets))
		if shown == nil || hashed == nil || !strings.Contains(string(text), "password: admin-password") || strings.Contains(string(text)+string(secrets), shown[1]) {
			t.Fatalf("%s: %v\n%s\n%s", name, err, &out, text)
		}
		again, err := exec.Command("openssl", "passwd", "-6", "-salt", hashed[2], shown[1]).Output()
		if err != nil || strings.TrimSpace(string(again)) != hashed[1] {
			t.Errorf("the hash is not of the password that was shown: %v", err)
		}
	}
	if _, err := (Answers{guest: true, SSH: "password"}).complete(ports); err == nil || !strings.Contains(err.Error(), "does not own its host") {
		t.Errorf("a password beside others: %v", err)
	}
}
