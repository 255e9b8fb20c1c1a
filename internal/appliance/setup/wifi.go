// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"minne/internal/base/nl80211"
	"minne/internal/model/config"
)

// Radio is a Wi-Fi card that can be an access point.
type Radio struct {
	Name string
	MAC  string
	Fast bool // it has 5 GHz
	Wide bool // and channels of 80 MHz there
}

// wifiSecret is the name of the secret that holds the passphrase of the Wi-Fi.
const wifiSecret = "wifi"

// findRadio returns the machine's first radio that can be an access point, nil for none, or where hostapd is not installed.
func findRadio(ctx context.Context) *Radio {
	if _, err := exec.LookPath("hostapd"); err != nil {
		return nil
	}
	c, err := nl80211.Open()
	if err != nil {
		return nil // no card, or none with a driver: there is nothing to offer
	}
	defer c.Close()
	all, err := c.Radios(ctx)
	if err != nil {
		return nil
	}
	for _, r := range all {
		if slices.Contains(r.Types, nl80211.AccessPoint) {
			band, fast := r.Find(config.Band5.MHz(fastChannel))
			return &Radio{Name: r.Name, MAC: r.MAC.String(), Fast: fast, Wide: fast && band.IsVHT}
		}
	}
	return nil
}

// Channels that nearly all countries allow inside houses, without listening for radars.
const (
	fastChannel = 36
	slowChannel = 6
)

// isRadio says whether a link is one of a radio, which is no port for a cable.
func isRadio(link string) bool {
	_, err := os.Stat(filepath.Join("/sys/class/net", link, "phy80211"))
	return err == nil
}

var country = regexp.MustCompile(`^[A-Z]{2}$`)

// checkWiFi says what an access point lacks, or what is there without one.
func checkWiFi(a Answers) error {
	switch {
	case a.WiFi == "" && (a.WiFiPassphrase != "" || a.WiFiCountry != "" || a.WiFiNetwork != ""):
		return errors.New("wifi-passphrase, wifi-country and wifi-network belong to wifi, the name of the network")
	case a.WiFi == "":
		return nil
	}
	for _, err := range []error{checkSSID(a.WiFi), checkPassphrase(a.WiFiPassphrase), checkCountry(a.WiFiCountry), checkWiFiNetwork(a.WiFiNetwork)} {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkSSID(text string) error {
	if len(text) > 32 || text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%q: expected the name of a Wi-Fi network, at most 32 bytes", text)
	}
	return nil
}

func checkPassphrase(text string) error {
	if !config.Passphrase(text) {
		return errors.New("the passphrase of the Wi-Fi: expected 8 to 63 printable ASCII characters (wifi-passphrase)")
	}
	return nil
}

func checkCountry(text string) error {
	if !country.MatchString(text) {
		return fmt.Errorf("%q: expected the country of the Wi-Fi, two capital letters as DE (wifi-country)", text)
	}
	return nil
}

func checkWiFiNetwork(text string) error {
	if text != "" && text != "lan" && text != separate {
		return fmt.Errorf("%q: expected lan or %s", text, separate)
	}
	return nil
}

// askWiFi offers an access point where there is a card.
func (c *conversation) askWiFi(a *Answers, number func() int) error {
	if a.radio == nil {
		return nil
	}
	if err := c.ask(fmt.Sprintf("%d. Name of a Wi-Fi network on %s?", number(), a.radio.Name), "off", func(text string) error {
		if a.WiFi = ""; strings.EqualFold(text, "off") {
			return nil
		}
		a.WiFi = text
		return checkSSID(text)
	}); err != nil || a.WiFi == "" {
		return err
	}
	for checkPassphrase(a.WiFiPassphrase) != nil {
		fmt.Fprint(c.out, "   Its passphrase, 8 to 63 characters, which is not shown: ")
		shown := c.hide()
		text, err := c.line()
		shown()
		if err != nil {
			return err
		}
		a.WiFiPassphrase = text
	}
	if err := c.ask("   Country where the router is?", "DE", func(text string) error {
		a.WiFiCountry = strings.ToUpper(text)
		return checkCountry(a.WiFiCountry)
	}); err != nil {
		return err
	}
	return c.ask("   lan (one network with the ports inside) or separate?", "lan", func(text string) error {
		a.WiFiNetwork = text
		return checkWiFiNetwork(text)
	})
}

// radios writes the radio's section.
func radios(line func(string, ...any), a Answers) {
	line("")
	line("radios:")
	line("  radio:")
	line("    match: {mac: %q}  # %s", a.radio.MAC, a.radio.Name)
	line("    country: %s", a.WiFiCountry)
	switch {
	case a.radio.Wide:
		line("    band: 5GHz\n    channel: %d\n    width: 80MHz", fastChannel)
	case a.radio.Fast:
		line("    band: 5GHz\n    channel: %d", fastChannel)
	default:
		line("    band: 2.4GHz\n    channel: %d", slowChannel)
	}
}

// accessPoint writes the interface, but for its zone and addresses.
func accessPoint(line func(string, ...any), name string, a Answers) {
	line("  %s:", name)
	line("    wifi: {radio: radio, access-point: {ssid: %q, passphrase: %s}}  # the name of a secret in secrets.yaml", a.WiFi, wifiSecret)
}
