// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	"rsc.io/qr"

	"minne/internal/base/atomicfile"
	"minne/internal/base/medium"
	"minne/internal/model/config"
)

func newWireGuardCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "wireguard",
		Short: "Make keys and peers of WireGuard",
		Long:  "Make keys for WireGuard interfaces, and what a phone, laptop or other site needs to be a peer. Neither changes the running router: minne apply does.",
	}
	c.AddCommand(newWireGuardKeyCommand(a), newWireGuardPeerCommand(a))
	return c
}

// secretWord is a secret's name, as config takes it.
var secretWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func newWireGuardKeyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "new-key SECRET",
		Short: "Make a private key and store it as a secret",
		Long: `Make a private key, store it in the secrets file under the name SECRET, and print its
public key, which the other end needs. The private key is not printed. A secret that is
there already is never replaced.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !secretWord.MatchString(args[0]) {
				return usageError{fmt.Errorf("%q can't name a secret: expected letters, digits, dots, dashes and underscores, at most 63", args[0])}
			}
			key, err := wgtypes.GeneratePrivateKey()
			if err != nil {
				return err
			}
			file, err := a.keepSecrets(map[string]string{args[0]: key.String()})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "secret %s: stored in %s\npublic key: %s\n", args[0], file, key.PublicKey())
			return err
		},
	}
}

// keepSecrets adds secrets to the instance's file, all or none, and returns its name.
func (a *app) keepSecrets(added map[string]string) (file string, err error) {
	inst, err := a.inst()
	if err != nil {
		return "", err
	}
	known, err := config.LoadSecrets(inst.Secrets)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(inst.Secrets)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	for name, value := range added {
		if _, taken := known.Get(name); taken {
			return "", fmt.Errorf("%s has a secret %s already: choose another name, or delete its line first", inst.Secrets, name)
		}
		text = fmt.Appendf(text, "%s: %q\n", name, value)
	}
	done, err := medium.Writable(inst.Secrets)
	if err != nil {
		return "", err
	}
	err = os.MkdirAll(filepath.Dir(inst.Secrets), 0o755)
	if err == nil {
		err = atomicfile.Write(inst.Secrets, text, 0o600, atomicfile.Durable)
	}
	return inst.Secrets, errors.Join(err, done())
}

// newPeer is what a command line says of a peer to be.
type newPeer struct {
	name, iface, endpoint, output string
	address                       []string
	allowed, dns                  []string
	shared, picture               bool
}

func newWireGuardPeerCommand(a *app) *cobra.Command {
	var p newPeer
	c := &cobra.Command{
		Use:   "add-peer NAME",
		Short: "Make the file and QR code of a new peer",
		Long: `Make what a phone, laptop or other site needs to be a peer of this router: keys, an
address, and a file for its WireGuard, which wg-quick and the apps read. With --qr the
file is also printed as a QR code, which the apps scan.

The command prints the lines that the router's configuration needs for the peer; it changes
the configuration neither in the file nor on the router. The file and the QR code hold the
peer's private key, which is stored nowhere else: delete the file once the peer has it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p.name = args[0]
			return a.addPeer(p)
		},
	}
	f := c.Flags()
	f.StringVar(&p.endpoint, "endpoint", "", "`name` or address under which the peer reaches this router, with a port if it is not listen-port")
	f.StringVar(&p.iface, "interface", "", "WireGuard `interface` of this router (default: the only one)")
	f.StringSliceVar(&p.address, "address", nil, "`addresses` of the peer in the tunnel (default: the next free one of each network of the interface)")
	f.StringSliceVar(&p.allowed, "allowed", nil, "`prefixes` that the peer sends into the tunnel (default: all)")
	f.StringSliceVar(&p.dns, "dns", nil, "DNS `servers` of the peer while the tunnel is up")
	f.StringVarP(&p.output, "output", "o", "", "`file` to write (default: NAME.conf)")
	f.BoolVar(&p.shared, "preshared", false, "make a preshared key too, stored as the secret INTERFACE-NAME")
	f.BoolVar(&p.picture, "qr", false, "print the QR code")
	return c
}

// addPeer makes keys and file of a peer, and says what the router needs.
func (a *app) addPeer(p newPeer) error {
	if !secretWord.MatchString(p.name) {
		return usageError{fmt.Errorf("%q can't name a peer: expected letters, digits, dots, dashes and underscores, at most 63", p.name)}
	}
	file, text, err := a.load(nil)
	if err != nil {
		return err
	}
	cfg, err := config.Parse(file, []byte(text))
	if err != nil {
		return err
	}
	if err := p.choose(cfg, file); err != nil {
		return err
	}
	own, err := a.wireGuardKey(cfg.Interfaces[p.iface].WireGuard.PrivateKey)
	if err != nil {
		return err
	}
	private, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		return err
	}
	lines := []string{"[Interface]", "PrivateKey = " + private.String(), "Address = " + strings.Join(p.address, ", ")}
	if len(p.dns) > 0 {
		lines = append(lines, "DNS = "+strings.Join(p.dns, ", "))
	}
	lines = append(lines, "", "[Peer]", "PublicKey = "+own.PublicKey().String())
	sharedKey := ""
	if p.shared {
		shared, err := wgtypes.GenerateKey()
		if err != nil {
			return err
		}
		name := p.iface + "-" + p.name
		if _, err := a.keepSecrets(map[string]string{name: shared.String()}); err != nil {
			return err
		}
		sharedKey = "preshared-key: " + name + ", "
		lines = append(lines, "PresharedKey = "+shared.String())
	}
	lines = append(lines, "AllowedIPs = "+strings.Join(p.allowed, ", "), "Endpoint = "+p.endpoint, "PersistentKeepalive = 25", "")
	made := strings.Join(lines, "\n")
	if err := keep(p.output, []byte(made), 0o600); err != nil {
		return err
	}
	if p.picture {
		code, err := qr.Encode(made, qr.L)
		if err != nil {
			return fmt.Errorf("QR code: %w", err)
		}
		fmt.Fprint(a.out, picture(code))
	}
	_, err = fmt.Fprintf(a.out, `%s: the file for %s, with its private key
Write into %s, below interfaces.%s.wireguard.peers, and minne apply it:

        %s: {public-key: %q, %sallowed: [%s]}
`, p.output, p.name, file, p.iface, p.name, private.PublicKey(), sharedKey, strings.Join(p.address, ", "))
	return err
}

// choose fills in what the command line leaves open; file is that of the configuration.
func (p *newPeer) choose(cfg *config.Config, file string) error {
	var all []string
	for name, i := range cfg.Interfaces {
		if i.WireGuard != nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	switch {
	case len(all) == 0:
		return fmt.Errorf("%s has no WireGuard interface: docs/guides/wireguard-road.md has one to begin with", file)
	case p.iface == "" && len(all) == 1:
		p.iface = all[0]
	case !slices.Contains(all, p.iface):
		return usageError{fmt.Errorf("--interface %q: expected one of %s", p.iface, strings.Join(all, ", "))}
	}
	i := cfg.Interfaces[p.iface]
	if _, taken := i.WireGuard.Peers[p.name]; taken {
		return fmt.Errorf("%s has a peer %s already: choose another name, or delete it from %s", p.iface, p.name, file)
	}
	if p.endpoint == "" || i.WireGuard.ListenPort == 0 {
		return usageError{fmt.Errorf("the peer must know where to find this router: --endpoint NAME, and listen-port in interfaces.%s.wireguard", p.iface)}
	}
	if _, _, err := net.SplitHostPort(p.endpoint); err != nil {
		p.endpoint = net.JoinHostPort(strings.Trim(p.endpoint, "[]"), strconv.Itoa(i.WireGuard.ListenPort))
	}
	if err := p.chooseAddresses(i); err != nil {
		return err
	}
	if p.output == "" {
		p.output = p.name + ".conf"
	}
	for _, text := range p.allowed {
		if _, err := netip.ParsePrefix(text); err != nil {
			return usageError{fmt.Errorf("--allowed %s: expected a prefix as 192.0.2.0/24", text)}
		}
	}
	for _, text := range p.dns {
		if _, err := netip.ParseAddr(text); err != nil {
			return usageError{fmt.Errorf("--dns %s: expected an address", text)}
		}
	}
	return nil
}

// chooseAddresses checks the peer's addresses, or takes a free one of each network, and opens all of their families.
func (p *newPeer) chooseAddresses(i *config.Interface) error {
	if p.address == nil {
		for _, own := range i.Addresses {
			if a, ok := freeAddress(own.Prefix, i.WireGuard); ok {
				p.address = append(p.address, netip.PrefixFrom(a, a.BitLen()).String())
			}
		}
		if p.address == nil {
			return usageError{fmt.Errorf("no network of %s has a free address: name one with --address", p.iface)}
		}
	}
	var families []string
	for n, text := range p.address {
		own, err := netip.ParsePrefix(text)
		if a, failed := netip.ParseAddr(text); failed == nil {
			own, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || !own.IsSingleIP() {
			return usageError{fmt.Errorf("--address %s: expected the address of one host, as 10.9.0.2", text)}
		}
		p.address[n] = own.String()
		families = append(families, map[bool]string{true: "0.0.0.0/0", false: "::/0"}[own.Addr().Is4()])
	}
	if p.allowed == nil {
		slices.Sort(families)
		p.allowed = slices.Compact(families)
	}
	return nil
}

// mostTried bounds the search for a free address.
const mostTried = 1 << 16

// freeAddress is the first address of a network that neither the router nor a peer has.
func freeAddress(own netip.Prefix, w *config.WireGuard) (netip.Addr, bool) {
	if own.IsSingleIP() || own.Addr().IsLinkLocalUnicast() {
		return netip.Addr{}, false
	}
	a := own.Masked().Addr()
	for range mostTried {
		a = a.Next()
		if !own.Contains(a) || a.Is4() && own.Bits() < 31 && !own.Contains(a.Next()) {
			break
		}
		taken := a == own.Addr()
		for _, p := range w.Peers {
			taken = taken || slices.ContainsFunc(p.Allowed, func(of config.Prefix) bool { return of.Bits() > 0 && of.Contains(a) })
		}
		if !taken {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// wireGuardKey is the private key that a secret holds.
func (a *app) wireGuardKey(secret string) (key wgtypes.Key, err error) {
	inst, err := a.inst()
	if err != nil {
		return key, err
	}
	secrets, err := config.LoadSecrets(inst.Secrets)
	if err != nil {
		return key, err
	}
	value, _ := secrets.Get(secret)
	if key, err = wgtypes.ParseKey(value); err != nil {
		return key, fmt.Errorf("%s holds no WireGuard key under the name %s: minne wireguard new-key %s makes one", inst.Secrets, secret, secret)
	}
	return key, nil
}

// picture is a QR code of half blocks, two rows in a line, white on black whatever the terminal's colours are. Around it
// are four modules of white, as readers expect (ISO/IEC 18004).
func picture(code *qr.Code) string {
	const quiet = 4
	var b strings.Builder
	for y := -quiet; y < code.Size+quiet; y += 2 {
		b.WriteString("\x1b[40;97m")
		for x := -quiet; x < code.Size+quiet; x++ {
			upper, lower := code.Black(x, y), code.Black(x, y+1) // outside of the code all is white
			b.WriteString(map[[2]bool]string{{false, false}: "█", {false, true}: "▀", {true, false}: "▄", {true, true}: " "}[[2]bool{upper, lower}])
		}
		b.WriteString("\x1b[0m\n")
	}
	return b.String()
}
