// SPDX-License-Identifier: Apache-2.0

// Package wifi runs access points by hostapd, one for each radio, and stations and meshes by wpa_supplicant, one for each
// interface. The first interface of each program is made here (nl80211), the others by hostapd; addresses,
// bridges and zones are put in place when a link appears, as with every link that comes and goes.
//
// The programs outlive the daemon, and clients stay joined. Passphrases are in files that only root reads.
package wifi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"minne/internal/base/nl80211"
	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
)

const (
	hostapd    = "hostapd"
	supplicant = "wpa_supplicant"

	prefix   = "wifi-"      // of the programs' directories
	ofRadio  = "ap-"        // then the radio's section
	ofMember = "interface-" // then the interface

	control = "control" // directory of the programs' sockets
	made    = "made"    // file that names the interfaces that were made for a program

	// lookEvery is how often the radios are looked at: a card may be plugged in again.
	lookEvery = 5 * time.Second
	// upLimit is how long an access point may take to send beacons.
	upLimit = 15 * time.Second
)

// Service is Wi-Fi to the other parts.
var Service = service.Descriptor{
	Name:  "wifi",
	Title: "Wi-Fi",
	Programs: []service.Program{
		{Name: hostapd, For: "Wi-Fi access points", Package: "hostapd", Version: []string{hostapd, "-v"}, Unit: "hostapd"},
		{Name: supplicant, For: "Wi-Fi stations and meshes", Package: "wpasupplicant", Version: []string{supplicant, "-v"}, Unit: "wpa_supplicant"},
	},
	Openings: openings,
	New: func(h service.Host) service.Running {
		c := &Client{Fleet: program.NewFleet(h.RunDir, "of", prefix, h.Log), runDir: h.RunDir, log: h.Log.With("service", "wifi"), trouble: map[string]string{}}
		r := service.Of(c, func(cfg *config.Config, secrets config.Secrets) (Desired, error) {
			return Render(cfg, secrets, filepath.Dir(h.Config))
		})
		r.Task, r.Stop, r.Trim, r.States, r.Trouble = c, c.Stop, c.TrimOutput, c.States, c.Trouble
		return r
	},
	Views: []service.View{service.NewView(service.View{
		Path:  "wifi",
		Short: "Show radios, Wi-Fi networks and their clients",
	}, (*Client).Observe, table)},
}

// openings let hostapd ask its RADIUS servers.
func openings(cfg *config.Config) (list []policy.Opening) {
	ports := map[int]bool{}
	for _, i := range cfg.Interfaces {
		if i.WiFi != nil && i.WiFi.AccessPoint != nil && !i.Disabled {
			for _, r := range i.WiFi.AccessPoint.RADIUS {
				ports[r.Port] = true
			}
		}
	}
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		list = append(list, policy.Opening{Text: "RADIUS", Protocols: []uint8{unix.IPPROTO_UDP}, Port: uint16(port), Out: true, Anywhere: true})
	}
	return list
}

// Desired is the part of a configuration that is Wi-Fi. It has passphrases, and prints none.
type Desired struct {
	cfg     *config.Config
	secrets config.Secrets
	folder  string            // of the configuration, for the files that it names
	bridges map[string]string // interface → the bridge that it is a port of
}

// String and the like: passphrases are secrets.
func (d Desired) String() string       { return "(Wi-Fi)" }
func (d Desired) GoString() string     { return "(Wi-Fi)" }
func (d Desired) LogValue() slog.Value { return slog.StringValue("(Wi-Fi)") }

// Render takes the passphrases from the secrets.
func Render(cfg *config.Config, secrets config.Secrets, folder string) (Desired, error) {
	d := Desired{cfg: cfg, secrets: secrets, folder: folder, bridges: map[string]string{}}
	masters := cfg.Masters()
	for name, i := range cfg.Interfaces {
		if i.WiFi == nil || i.Disabled {
			continue
		}
		if m := masters[name]; m.Kind.Name == "bridge" {
			d.bridges[name] = m.Name
		}
		phrase := ""
		switch w := i.WiFi; {
		case w.AccessPoint != nil:
			phrase = w.AccessPoint.Passphrase
		case w.Station != nil:
			phrase = w.Station.Passphrase
		case w.Mesh != nil:
			phrase = w.Mesh.Passphrase
		}
		if value, _ := secrets.Get(phrase); phrase != "" && !config.Passphrase(value) {
			return Desired{}, fmt.Errorf("interfaces.%s.wifi: the secret %s is no passphrase of Wi-Fi: expected 8 to 63 printable ASCII characters", name, phrase)
		}
	}
	return d, nil
}

// empty says whether there is nothing to do.
func (d Desired) empty() bool { return len(d.names()) == 0 }

// names are the interfaces, in order.
func (d Desired) names() (list []string) {
	if d.cfg == nil {
		return nil
	}
	for _, name := range sorted(d.cfg.Interfaces) {
		if i := d.cfg.Interfaces[name]; i.WiFi != nil && !i.Disabled {
			list = append(list, name)
		}
	}
	return list
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// link is an interface that has to be there before its program starts.
type link struct {
	name  string
	radio string
	typ   nl80211.Type
}

// programs are those that run on the radios that are there, and the link of each. known are those of programs whose
// radio is not there: they are left as they are.
func (d Desired) programs(m machine, runDir string) (all map[string]program.Desired, links map[string]link) {
	all, links = map[string]program.Desired{}, map[string]link{}
	for _, radio := range sorted(d.radios()) {
		phy := find(radio, d.cfg.Radios[radio], m.radios)
		if phy == nil {
			continue
		}
		var points []string
		for _, name := range d.cfg.WiFiOn(radio) {
			t := purpose(d.cfg.Interfaces[name].WiFi)
			if t == nl80211.AccessPoint {
				points = append(points, name)
				continue
			}
			key := ofMember + name
			all[key], links[key] = d.joins(name, program.Dir(runDir, prefix+key)), link{name, radio, t}
		}
		if len(points) > 0 {
			key := ofRadio + radio
			all[key], links[key] = d.accessPoints(radio, points, phy, program.Dir(runDir, prefix+key)), link{points[0], radio, nl80211.AccessPoint}
		}
	}
	return all, links
}

// radios are the sections that have interfaces.
func (d Desired) radios() map[string]*config.Radio {
	used := map[string]*config.Radio{}
	for _, name := range d.names() {
		radio := d.cfg.Interfaces[name].WiFi.Radio
		used[radio] = d.cfg.Radios[radio]
	}
	return used
}

// needs says what is missing of a program, before anything is changed.
func needs(binary, packet string) func() error {
	return func() error {
		if _, err := exec.LookPath(binary); err != nil {
			return fmt.Errorf("wifi needs the program %s, which is not installed: install the package %s (on the image: a system built with the set wifi)", binary, packet)
		}
		return nil
	}
}

// printable is a text of others without what a terminal would obey.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, text)
}

// Client is the Wi-Fi of an instance.
type Client struct {
	*program.Fleet
	runDir string
	log    *slog.Logger

	mu      sync.Mutex
	desired Desired
	applied bool
	trouble map[string]string
	fresh   []string // interfaces that were made, and whose program may not be there yet
}

// String names the task.
func (c *Client) String() string { return "wifi" }

// ask reads what the machine has.
func (d Desired) ask(ctx context.Context, conn *nl80211.Conn) (m machine, err error) {
	if m.radios, err = conn.Radios(ctx); err != nil {
		return m, fmt.Errorf("read the radios: %w", err)
	}
	for _, r := range d.radios() { // all are in one country
		m.rules, err = nl80211.Country(r.Country)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return m, errors.New("wifi needs the countries' radio rules, which are not installed: install the package wireless-regdb")
		case errors.Is(err, nl80211.ErrCountry):
			report := config.NewReport(d.cfg)
			for _, name := range sorted(d.radios()) {
				report.Refuse("radios."+name+".country", "no radio rules are known for "+r.Country, "the country where the radio is", "")
			}
			return m, report.Err()
		}
		return m, err
	}
	return m, nil
}

// Plan says what would begin, change and end, and refuses what card or country do not allow.
func (c *Client) Plan(ctx context.Context, d Desired) ([]plan.Change, error) {
	if d.empty() {
		return c.Fleet.Plan(ctx, nil)
	}
	conn, err := open(d)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	m, err := d.ask(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := check(d.cfg, m); err != nil {
		return nil, err
	}
	all, _ := d.programs(m, c.runDir)
	changes, err := c.Fleet.Plan(ctx, all)
	for n := range changes {
		if ch := &changes[n]; ch.Action == plan.Modify {
			ch.Effect = "starts anew: who is joined is cut off for some seconds"
		}
	}
	return changes, err
}

// open asks the kernel; the programs are looked for first, since without them no module may be loaded either.
func open(d Desired) (*nl80211.Conn, error) {
	for _, name := range d.names() {
		need := needs(supplicant, "wpasupplicant")
		if d.cfg.Interfaces[name].WiFi.AccessPoint != nil {
			need = needs(hostapd, "hostapd")
		}
		if err := need(); err != nil {
			return nil, err
		}
	}
	return nl80211.Open()
}

// Apply makes the programs and their links those that are desired. A program that is as desired goes on.
func (c *Client) Apply(ctx context.Context, d Desired) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.madeLinks()
	c.desired, c.applied = d, true
	clear(c.trouble)
	if d.empty() {
		if err := c.Fleet.Apply(ctx, nil); err != nil {
			return err
		}
		return c.drop(ctx, before)
	}
	conn, err := open(d)
	if err != nil {
		return err
	}
	defer conn.Close()
	m, err := d.ask(ctx, conn)
	if err != nil {
		return err
	}
	all, links := d.programs(m, c.runDir)
	for _, key := range c.Known() { // one whose radio changed or went ends before its link does
		_, stays := all[key]
		// So does one that gets another link: the interfaces that it made itself go when it ends, and the new link may be one of them.
		if of := c.made(key); stays && (of == nil || slices.Equal(of, []string{links[key].name})) {
			continue
		}
		if err := c.Of(key).Stop(ctx); err != nil {
			return err
		}
	}
	c.absent(m)
	wanted := func(name string) bool {
		for _, l := range links {
			if l.name == name {
				return true
			}
		}
		return false
	}
	if err := c.remove(ctx, conn, slices.DeleteFunc(before, wanted)); err != nil {
		return err
	}
	if err := c.tune(ctx, conn, m); err != nil {
		return err
	}
	if _, err := c.makeLinks(ctx, conn, m, links); err != nil {
		return err
	}
	if err := c.Fleet.Apply(ctx, all); err != nil {
		return err
	}
	c.fresh = nil // their programs know them now
	c.Wake()
	return c.up(ctx, conn, all)
}

// Stop ends all programs and takes their links away.
func (c *Client) Stop(ctx context.Context) error { return c.Apply(ctx, Desired{}) }

// madeLinks are the interfaces that were made for programs, of this daemon or of one before.
func (c *Client) madeLinks() (names []string) {
	names = slices.Clone(c.fresh)
	for _, key := range c.Known() {
		names = append(names, c.made(key)...)
	}
	return names
}

// made are those of one program; nil for a program that has none.
func (c *Client) made(key string) []string {
	b, err := os.ReadFile(filepath.Join(program.Dir(c.runDir, prefix+key), made))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// drop removes links where Wi-Fi ends.
func (c *Client) drop(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	conn, err := nl80211.Open()
	if errors.Is(err, nl80211.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	return c.remove(ctx, conn, names)
}

func (c *Client) remove(ctx context.Context, conn *nl80211.Conn, names []string) error {
	if len(names) == 0 {
		return nil
	}
	all, err := conn.Interfaces(ctx)
	if err != nil {
		return err
	}
	for _, i := range all {
		if slices.Contains(names, i.Name) {
			if err := conn.Remove(ctx, i.Index); err != nil {
				return fmt.Errorf("remove Wi-Fi interface %s: %w", i.Name, err)
			}
		}
	}
	return nil
}

// absent notes the radios that are not there. The caller holds mu.
func (c *Client) absent(m machine) {
	for name, r := range c.desired.radios() {
		key := "radio " + name
		delete(c.trouble, key)
		if find(name, r, m.radios) == nil {
			message, expected := missing(m.radios)
			c.trouble[key] = fmt.Sprintf("radio %s: %s; expected %s", name, message, expected)
		}
	}
}

// makeLinks makes the links that are missing, or are something else, and returns the programs that they are of.
func (c *Client) makeLinks(ctx context.Context, conn *nl80211.Conn, m machine, links map[string]link) (fresh []string, err error) {
	all, err := conn.Interfaces(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range sorted(links) {
		want := links[key]
		phy := find(want.radio, c.desired.cfg.Radios[want.radio], m.radios)
		n := slices.IndexFunc(all, func(i nl80211.Interface) bool { return i.Name == want.name })
		if n >= 0 && all[n].Radio == phy.Index && all[n].Type == want.typ {
			continue
		}
		if n >= 0 {
			if p := c.Of(key); p != nil { // it would make the interface again
				if err := p.Stop(ctx); err != nil {
					return fresh, err
				}
			}
			if err := conn.Remove(ctx, all[n].Index); err != nil {
				return fresh, fmt.Errorf("remove Wi-Fi interface %s: %w", want.name, err)
			}
		}
		if err := conn.Make(ctx, phy.Index, want.name, want.typ); err != nil {
			return fresh, err
		}
		c.log.Info("Wi-Fi interface made", "interface", want.name, "radio", phy.Name)
		fresh, c.fresh = append(fresh, key), append(c.fresh, want.name)
	}
	return fresh, nil
}

// tune gives the radios their country, distance and power.
func (c *Client) tune(ctx context.Context, conn *nl80211.Conn, m machine) error {
	now, err := conn.Country(ctx)
	if err != nil {
		return err
	}
	for _, name := range sorted(c.desired.radios()) {
		r := c.desired.cfg.Radios[name]
		phy := find(name, r, m.radios)
		if now != r.Country {
			if err := conn.SetCountry(ctx, r.Country); err != nil {
				return fmt.Errorf("set the country %s: %w", r.Country, err)
			}
			now = r.Country
		}
		if phy == nil {
			continue
		}
		if class, ok := coverage(r.Distance); ok && class != phy.Coverage {
			if err := conn.SetCoverage(ctx, phy.Index, class); err != nil {
				return fmt.Errorf("radios.%s.distance: the radio takes no distance: %w", name, err)
			}
		}
		if r.Power != 0 {
			if err := conn.SetPower(ctx, phy.Index, r.Power); err != nil {
				return fmt.Errorf("radios.%s.power: the radio takes no power of %d dBm: %w", name, r.Power, err)
			}
		}
	}
	return nil
}

// up waits until the access points send beacons, so that a commit fails where one can't. Those that first
// look for a channel, or listen for radars, take minutes: they are not waited for.
func (c *Client) up(ctx context.Context, conn *nl80211.Conn, all map[string]program.Desired) error {
	limit := time.Now().Add(upLimit)
	for _, radio := range sorted(c.desired.radios()) {
		p := c.Of(ofRadio + radio)
		r := c.desired.cfg.Radios[radio]
		if p == nil || r.Channel == 0 || c.listens(r) {
			continue
		}
		for {
			now, err := conn.Interfaces(ctx)
			if err != nil {
				return err
			}
			silent := ""
			for _, name := range c.desired.cfg.WiFiOn(radio) {
				isUp := slices.ContainsFunc(now, func(i nl80211.Interface) bool { return i.Name == name && i.MHz != 0 })
				if c.desired.cfg.Interfaces[name].WiFi.AccessPoint != nil && !isUp {
					silent = name
				}
			}
			if silent == "" {
				break
			}
			if time.Now().After(limit) || !p.State().Running {
				return fmt.Errorf("the access point %s does not begin to send: %s", silent, lastWords(filepath.Join(p.Dir(), "output")))
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// listens says whether a radio has to listen for radars before it sends.
func (c *Client) listens(r *config.Radio) bool {
	rules, err := nl80211.Country(r.Country)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(r.Band.Block(r.Channel, r.Width.MHz()), func(channel int) bool {
		_, radar := nl80211.Allows(rules, r.Band.MHz(channel), r.Width.MHz())
		return radar
	})
}

// lastWords are the last lines that a program printed. They come from the air in parts.
func lastWords(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return printable(strings.Join(all[max(0, len(all)-4):], "; "))
}

// Run supervises the programs and makes the links of radios that come back, until ctx ends. The programs go on.
func (c *Client) Run(ctx context.Context) error {
	return c.Follow(ctx, func(ctx context.Context) time.Duration {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.applied || c.desired.empty() {
			return 0
		}
		delete(c.trouble, "Wi-Fi")
		if err := c.look(ctx); err != nil && ctx.Err() == nil {
			c.trouble["Wi-Fi"] = err.Error()
		}
		return lookEvery
	})
}

// look makes what is missing. The caller holds mu.
func (c *Client) look(ctx context.Context) error {
	conn, err := nl80211.Open()
	if err != nil {
		return err
	}
	defer conn.Close()
	m, err := c.desired.ask(ctx, conn)
	if err != nil {
		return err
	}
	c.absent(m)
	all, links := c.desired.programs(m, c.runDir)
	fresh, err := c.makeLinks(ctx, conn, m, links)
	if err != nil || len(fresh) == 0 {
		return err
	}
	if err := c.tune(ctx, conn, m); err != nil {
		return err
	}
	for _, key := range fresh {
		if p := c.Of(key); p != nil && p.State().Object != "" {
			if err := p.Restart(ctx); err != nil {
				return err
			}
		}
	}
	return c.Fleet.Apply(ctx, all) // those whose radio was not there
}

// States are the states of the programs.
func (c *Client) States() (list []program.State) {
	for _, key := range c.Known() {
		if s := c.State(key); s.Object != "" {
			list = append(list, s)
		}
	}
	return list
}

// Trouble says what does not work.
func (c *Client) Trouble(context.Context) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.trouble)
}
