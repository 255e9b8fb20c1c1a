// SPDX-License-Identifier: Apache-2.0

// Package login keeps the hosts of some interfaces back until somebody logs in on them.
//
// The firewall does the keeping back: for each login there is a set of hosts (MAC address and IP address), and rules that reject
// who is not in it (package policy). This package says who is in it, by sessions: sessions.go begins and ends them, hosts.go
// finds the addresses of their hosts, users.go and vouchers.go say who may have one, portal.go asks them, tick.go counts and
// ends what is over. The store has all that must outlive the daemon; a router without it admits nobody.
package login

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/acme"
	"minne/internal/base/certfile"
	"minne/internal/base/plan"
	"minne/internal/base/store"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/resident"
	"minne/internal/subsystem/services/service"
)

// Service is login to the other parts.
var Service = service.Descriptor{
	Name:     "login",
	Title:    "login",
	Openings: openings,
	New: func(h service.Host) service.Running {
		s := New(h)
		r := service.Of(s, func(cfg *config.Config, secrets config.Secrets) (Desired, error) {
			return Render(cfg, secrets, filepath.Dir(h.Config))
		})
		r.Task, r.Stop, r.States, r.Down, r.Returned = s, s.Stop, s.pages.States, s.down, s.returned
		return r
	},
	Views: views,
}

// openings let unknown hosts reach the login page.
func openings(cfg *config.Config) (list []policy.Opening) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Services.Login)) {
		l := cfg.Services.Login[name]
		page := policy.Opening{Text: "login page of " + name, Protocols: []uint8{unix.IPPROTO_TCP}, Port: portHTTP, Interfaces: l.Interfaces, Unknown: true}
		if list = append(list, page); l.HTTPS() {
			page.Text, page.Port = "login page of "+name+" by HTTPS", portHTTPS
			list = append(list, page)
		}
		if a := l.ACME; a != nil {
			list = append(list, policy.Opening{Text: "certificate of login " + name, Protocols: []uint8{unix.IPPROTO_TCP}, Port: portHTTP, Interfaces: a.Interfaces},
				policy.Opening{Text: "certificate authority of login " + name, Protocols: []uint8{unix.IPPROTO_TCP}, Port: a.Port(), Out: true, Anywhere: true})
		}
		if r := l.RADIUS; r != nil {
			var servers []netip.Prefix
			for _, a := range r.Servers {
				servers = append(servers, netip.PrefixFrom(a, a.BitLen()))
			}
			if r.Changes.On() {
				var others []string
				for i := range cfg.Interfaces {
					if cfg.LoginOf(i) == "" {
						others = append(others, i)
					}
				}
				list = append(list, policy.Opening{Text: "RADIUS changes of login " + name, Protocols: []uint8{unix.IPPROTO_UDP}, Port: changesPort, Hosts: servers, Interfaces: slices.Sorted(slices.Values(others))})
			}
			for _, port := range []int{r.Port, r.Port + 1} {
				list = append(list, policy.Opening{Text: "RADIUS of login " + name, Protocols: []uint8{unix.IPPROTO_UDP}, Port: uint16(port), Hosts: servers, Out: true, Anywhere: true})
			}
		}
	}
	return list
}

// Firewall is the sets that say who is admitted.
type Firewall interface {
	Refeed(set string, all map[netip.Addr]config.MAC) error
	ChangeFed(set string, put map[netip.Addr]config.MAC, del []netip.Addr) error
	Feed(set string, all map[netip.Addr]config.MAC) // without touching the kernel
}

// Meter counts what addresses transfer.
type Meter interface {
	Watch(netip.Addr)
	Forget(netip.Addr)
	Read(context.Context) (map[netip.Addr]Traffic, error)
}

// Traffic is bytes of IP packets, as the host sees them.
type Traffic struct {
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
}

func (t Traffic) sum() uint64 { return t.Sent + t.Received }

// Desired is the logins, by name.
type Desired map[string]Settings

// Settings are what a configuration says of one login.
type Settings struct {
	Login     config.Login
	Users     map[string]string       // hashes by name
	Terms     []string                // paragraphs
	Secret    string                  // of the RADIUS servers
	Files     certfile.Files          // of the portal's certificate; none for plain HTTP
	Authority *authority              // that the certificate comes from; nil for files
	Tells     map[string]announcement // by interface
	Quota     uint64                  // bytes a month of a user; 0 for any number
	Resolver  netip.Addr              // where names of the walled garden are asked for
}

// Login is the service of one router.
type Login struct {
	log    *slog.Logger
	runDir string
	pages  *resident.Service[page] // the portals, by interface
	ready  chan struct{}
	files  *certfile.Reader
	key    [32]byte // of the forms' tokens; a new one with each daemon

	order sync.Mutex // of Plan and Apply

	mu       sync.Mutex
	store    *store.Store
	broken   error // why there is no store
	fire     Firewall
	meter    Meter
	settings Desired
	of       map[string]string // login by interface
	sessions map[hostID]*Session
	having   map[userID]int                       // sessions
	owners   map[string]map[netip.Addr]config.MAC // of admitted addresses, by login
	vouchers map[string]*Voucher                  // by digest of their code
	accounts map[string]*Account                  // of users with a quota
	tidied   string                               // the month in which those of former months were removed
	blocked  map[config.MAC]Block
	tries    map[string]*tries // by host and by account
	hosts    *hosts
	counters Counters
	warned   time.Time // of the last conflict that was logged
	clock    func() time.Time
	radius   *asker
	unsaved  map[hostID]bool // sessions whose counters are newer than those in the store

	plans    Subscribers
	unjoined error              // why users don't have their speed
	attempts map[string]attempt // to get certificates, by login
	proofs   acme.Proofs

	gardenWoken  chan struct{}
	certifyWoken chan struct{}
	ratesWoken   chan struct{}
}

// hostID is a host of a login.
type hostID struct {
	login string
	mac   config.MAC
}

func (h hostID) String() string { return h.login + " " + h.mac.String() }

// Counters are what has happened since the daemon began.
type Counters struct {
	Logins    uint64 `json:"logins"`
	Refused   uint64 `json:"refused"`
	Lockouts  uint64 `json:"lockouts"`
	Conflicts uint64 `json:"address_conflicts"`
}

// New returns the service, with the sessions of an earlier daemon. Nothing is served before the first Apply.
func New(h service.Host) *Login {
	l := &Login{
		log: h.Log.With("service", "login"), runDir: h.RunDir, ready: make(chan struct{}),
		settings: Desired{}, of: map[string]string{}, sessions: map[hostID]*Session{}, having: map[userID]int{}, owners: map[string]map[netip.Addr]config.MAC{},
		vouchers: map[string]*Voucher{}, accounts: map[string]*Account{}, blocked: map[config.MAC]Block{}, tries: map[string]*tries{}, clock: time.Now, unsaved: map[hostID]bool{},
		gardenWoken: make(chan struct{}, 1), certifyWoken: make(chan struct{}, 1), ratesWoken: make(chan struct{}, 1), attempts: map[string]attempt{},
	}
	fill(l.key[:])
	l.hosts = newHosts()
	l.files = certfile.New("the login page", l.log)
	l.radius = newAsker(l)
	l.pages = resident.New(resident.Kind[page]{Name: "login", Title: "login page", Fact: pageFact, Work: l.serve}, l.log)
	l.open(filepath.Join(h.StateDir, "store.db"))
	return l
}

// UseFirewall connects the service with the firewall, the meter and the plans, and tells who is admitted, and with which speed. It is
// called once, before the first commit.
func (l *Login) UseFirewall(f Firewall, m Meter, p Subscribers) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fire, l.meter, l.plans = f, m, p
	if list := l.subscribers(); len(list) > 0 {
		if _, err := p.Join(context.Background(), list); err != nil {
			l.unjoined = err
		}
	}
	for login, owners := range l.owners {
		f.Feed(config.LoginSet(login), owners)
		for a := range owners {
			m.Watch(a)
		}
	}
}

// String names the task.
func (l *Login) String() string { return "login" }

// Ready is closed once Run works.
func (l *Login) Ready() <-chan struct{} { return l.ready }

// Plan says what Apply would change.
func (l *Login) Plan(ctx context.Context, d Desired) ([]plan.Change, error) {
	return l.pages.Plan(ctx, d.pages())
}

// Apply makes the logins work as desired. Sessions of logins that are no more end.
func (l *Login) Apply(ctx context.Context, d Desired) error {
	l.order.Lock()
	defer l.order.Unlock()
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if err := l.usable(d[name]); err != nil {
			return fmt.Errorf("services.login.%s: %w", name, err)
		}
	}
	l.mu.Lock()
	if l.broken != nil && len(d) > 0 {
		l.mu.Unlock()
		return l.broken
	}
	l.settings, l.of = d, map[string]string{}
	for name, s := range d {
		for _, i := range s.Login.Interfaces {
			l.of[i] = name
		}
	}
	var over []ending
	for id := range l.sessions {
		if _, stays := d[id.login]; !stays {
			over = append(over, ending{id, "the login is no longer configured"})
		}
	}
	l.endAll(over)
	l.mu.Unlock()
	l.hosts.follow(slices.Sorted(maps.Keys(l.of)))
	err := l.pages.Apply(ctx, d.pages())
	l.wakeGarden()
	l.wakeRates()
	select {
	case l.certifyWoken <- struct{}{}:
	default:
	}
	l.radius.again()
	return err
}

// Stop ends the pages when the router is taken down. Who is admitted stays so.
func (l *Login) Stop(ctx context.Context) error {
	err := l.pages.Stop(ctx)
	l.flush()
	return err
}

func (l *Login) returned(ctx context.Context, name string) error {
	l.hosts.again()
	return l.pages.Returned(ctx, name)
}

func (l *Login) down() (list []string) {
	list = l.pages.Down()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		list = append(list, l.broken.Error())
	}
	if l.unjoined != nil {
		list = append(list, "login: users don't have their speed: "+l.unjoined.Error())
	}
	list = append(list, append(l.expired(), l.uncertified()...)...)
	return append(list, l.radius.down()...)
}

// Render is what a configuration asks for; files are looked for in dir.
func Render(cfg *config.Config, secrets config.Secrets, dir string) (Desired, error) {
	d := Desired{}
	for name, l := range cfg.Services.Login {
		s := Settings{Login: *l, Tells: map[string]announcement{}, Quota: l.QuotaBytes()}
		at := "services.login." + name
		if l.UsersFile != "" {
			users, err := readUsers(dir, l.UsersFile)
			if err != nil {
				return nil, fmt.Errorf("%s.users-file: %w", at, err)
			}
			s.Users = users
		}
		if l.Terms != "" {
			_, text, err := policy.ReadListed(dir, l.Terms)
			if err != nil {
				return nil, fmt.Errorf("%s.terms: %w", at, err)
			}
			if len(text) > maxTerms {
				return nil, fmt.Errorf("%s.terms: the file has %d bytes, expected at most %d", at, len(text), maxTerms)
			}
			for p := range strings.SplitSeq(text, "\n\n") {
				if p = strings.TrimSpace(p); p != "" {
					s.Terms = append(s.Terms, p)
				}
			}
		}
		if l.Cert != "" {
			s.Files = certfile.Files{Certificate: place(dir, l.Cert), Key: place(dir, l.Key)}
		}
		if l.ACME != nil {
			var err error
			if s.Authority, s.Files, err = readAuthority(dir, l); err != nil {
				return nil, fmt.Errorf("%s.acme.ca-certificate: %w", at, err)
			}
		}
		if l.RADIUS != nil {
			s.Secret, _ = secrets.Get(l.RADIUS.Secret)
		}
		for _, i := range l.Interfaces {
			s.Tells[i] = announcementOf(cfg, i)
			for _, a := range cfg.Interfaces[i].Addresses {
				if !s.Resolver.IsValid() {
					s.Resolver = a.Addr()
				}
			}
		}
		d[name] = s
	}
	return d, nil
}

// place is where a file of the configuration is.
func place(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// maxTerms bounds the terms of use, in bytes.
const maxTerms = 64 << 10
