// SPDX-License-Identifier: Apache-2.0

package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"minne/internal/base/store"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/service"
)

// What operators see and do.

// Block keeps a host out.
type Block struct {
	MAC     config.MAC `json:"mac"`
	Until   time.Time  `json:"until,omitzero"` // zero: until it is unblocked
	Comment string     `json:"comment,omitempty"`
}

// User is a session as it is shown.
type User struct {
	Login     string       `json:"login"`
	User      string       `json:"user"`
	Kind      string       `json:"kind"`
	MAC       config.MAC   `json:"mac"`
	Addresses []netip.Addr `json:"addresses"`
	Session   string       `json:"session"`
	Began     time.Time    `json:"began"`
	Until     time.Time    `json:"until,omitzero"`
	Active    time.Time    `json:"active"`
	BytesLeft *uint64      `json:"bytes_left,omitempty"`
	Traffic
}

// Users are who is logged in.
type Users struct {
	Users []User `json:"users"`
}

// Users are who is logged in, after what they have transferred was read.
func (l *Login) Users(ctx context.Context) (Users, error) {
	l.count(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	list := Users{Users: []User{}}
	for _, s := range l.sorted() {
		u := User{Login: s.Login, User: s.User, Kind: s.Kind, MAC: s.MAC, Addresses: slices.Clone(s.Addresses), Session: s.ID, Began: s.Began, Until: s.Until, Active: s.Active, Traffic: s.Traffic}
		if left, bounded := l.bytesLeft(s); bounded {
			u.BytesLeft = &left
		}
		list.Users = append(list.Users, u)
	}
	return list, nil
}

// Summary is a login in one line.
type Summary struct {
	Logins   []LoginSummary `json:"logins"`
	Counters Counters       `json:"since_start"`
	Interval int            `json:"probe_interval_seconds"`
}

// LoginSummary is one login.
type LoginSummary struct {
	Login    string `json:"login"`
	Users    int    `json:"users"`
	Hosts    int    `json:"hosts"` // known on its interfaces, logged in or not
	Vouchers int    `json:"vouchers"`
	Traffic
}

// Summary counts.
func (l *Login) Summary(ctx context.Context) (Summary, error) {
	l.count(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	v := Summary{Logins: []LoginSummary{}, Counters: l.counters, Interval: int(interval(len(l.sessions)) / time.Second)}
	for _, name := range slices.Sorted(maps.Keys(l.settings)) {
		one := LoginSummary{Login: name, Hosts: l.hosts.count(l.interfaces(name))}
		for _, s := range l.sessions {
			if s.Login == name {
				one.Users++
				one.Sent, one.Received = one.Sent+s.Traffic.Sent, one.Received+s.Traffic.Received
			}
		}
		for _, c := range l.vouchers {
			if c.Login == name {
				one.Vouchers++
			}
		}
		v.Logins = append(v.Logins, one)
	}
	return v, nil
}

// count is how many hosts there are on some interfaces.
func (h *hosts) count(ifaces []string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, of := range h.by {
		for at := range of {
			if slices.Contains(ifaces, at.iface) {
				n++
				break
			}
		}
	}
	return n
}

// Blocks are the hosts that are kept out, and those that are locked for now.
type Blocks struct {
	Blocks []Block  `json:"blocks"`
	Locked []Locked `json:"locked"`
}

// Locked is a host or an account with too many failed logins.
type Locked struct {
	Who   string    `json:"who"`
	Until time.Time `json:"until"`
}

// Blocks are all that there are.
func (l *Login) Blocks(context.Context) (Blocks, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := Blocks{Blocks: []Block{}, Locked: []Locked{}}
	now := l.clock()
	for _, b := range l.blocked {
		if b.Until.IsZero() || b.Until.After(now) {
			v.Blocks = append(v.Blocks, b)
		}
	}
	slices.SortFunc(v.Blocks, func(a, b Block) int { return slices.Compare(a.MAC[:], b.MAC[:]) })
	for who, t := range l.tries {
		if t.until.After(now) {
			v.Locked = append(v.Locked, Locked{who, t.until})
		}
	}
	slices.SortFunc(v.Locked, func(a, b Locked) int { return cmp.Compare(a.Who, b.Who) })
	return v, nil
}

// Order is what an operator wants to become of hosts.
type Order struct {
	Do      string     `json:"do"` // add, remove, block or unblock
	Login   string     `json:"login,omitempty"`
	MAC     config.MAC `json:"mac,omitzero"`
	Address netip.Addr `json:"address,omitzero"` // in the place of a MAC address
	User    string     `json:"user,omitempty"`   // in the place of a host: all of a user's
	Seconds int64      `json:"seconds,omitempty"`
	Comment string     `json:"comment,omitempty"`
}

// Done says what was done.
type Done struct {
	Done []string `json:"done"`
}

// Carry carries an order out.
func (l *Login) Carry(q Order) (Done, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return Done{}, l.broken
	}
	if q.MAC.IsZero() && q.Address.IsValid() {
		if q.MAC = l.macOf(q.Address); q.MAC.IsZero() {
			return Done{}, fmt.Errorf("no host of a login has the address %s", q.Address)
		}
	}
	if q.MAC.IsZero() && (q.User == "" || q.Do != "remove") {
		return Done{}, errors.New("which host? Name its MAC address, or its address")
	}
	if q.Seconds < 0 || q.Seconds > 10*365*24*3600 {
		return Done{}, errors.New("the time is more than ten years")
	}
	until := time.Time{}
	if q.Seconds > 0 {
		until = l.clock().Add(time.Duration(q.Seconds) * time.Second)
	}
	switch q.Do {
	case "add":
		return l.add(q, until)
	case "remove":
		return l.removed(q, "logged out by the operator")
	case "block":
		b := Block{MAC: q.MAC, Until: until, Comment: q.Comment}
		if err := l.store.Write(store.Change{Bucket: bucketBlocks, Key: q.MAC.String(), Value: b}); err != nil {
			return Done{}, err
		}
		l.blocked[q.MAC] = b
		_, _ = l.removed(q, "blocked by the operator")
		return Done{[]string{q.MAC.String()}}, nil
	case "unblock":
		_, there := l.blocked[q.MAC]
		for name := range l.settings {
			key := keysOf(name, q.MAC, "")[0]
			there = there || l.tries[key] != nil
			delete(l.tries, key)
		}
		if !there {
			return Done{}, fmt.Errorf("%s is not blocked", q.MAC)
		}
		delete(l.blocked, q.MAC)
		return Done{[]string{q.MAC.String()}}, l.store.Write(store.Change{Bucket: bucketBlocks, Key: q.MAC.String()})
	}
	return Done{}, fmt.Errorf("%q is no order", q.Do)
}

func (l *Login) add(q Order, until time.Time) (Done, error) {
	name, err := l.only(q.Login)
	if err != nil {
		return Done{}, err
	}
	s := &Session{Login: name, MAC: q.MAC, User: cmp.Or(q.User, q.Comment, "operator"), Kind: "operator", Until: until}
	if q.Address.IsValid() && l.mayHave(s, q.Address) {
		s.Addresses = []netip.Addr{q.Address}
	}
	if err := l.begin(s); err != nil {
		return Done{}, err
	}
	return Done{[]string{q.MAC.String()}}, nil
}

// removed ends the sessions of a host, or of a user.
func (l *Login) removed(q Order, why string) (d Done, err error) {
	var over []ending
	for id, s := range l.sessions {
		if (id.mac == q.MAC || q.MAC.IsZero() && s.User == q.User) && (q.Login == "" || q.Login == id.login) {
			over = append(over, ending{id, why})
			d.Done = append(d.Done, id.mac.String())
		}
	}
	l.endAll(over)
	if len(d.Done) == 0 {
		return d, fmt.Errorf("%s is not logged in", cmp.Or(q.User, q.MAC.String()))
	}
	slices.Sort(d.Done)
	return d, nil
}

// macOf is the host that has an address. The caller holds mu.
func (l *Login) macOf(a netip.Addr) config.MAC {
	for _, owners := range l.owners {
		if mac, ok := owners[a]; ok {
			return mac
		}
	}
	l.hosts.mu.Lock()
	defer l.hosts.mu.Unlock()
	for n, e := range l.hosts.macs {
		if n.address == a {
			return e.mac
		}
	}
	return config.MAC{}
}

// Vouchers without what makes a voucher of them.
func (l *Login) listed(context.Context) (Vouchers, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.show(l.vouchers)
	for i := range v.Vouchers {
		v.Vouchers[i].Code = v.Vouchers[i].Code[:3] + "…"
	}
	return v, nil
}

func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

var views = []service.View{
	service.NewView(service.View{Path: "login summary", Short: "Show each login with its users and hosts"}, (*Login).Summary, func(v Summary) service.Table {
		t := service.Table{Head: []string{"Login", ">Users", ">Hosts", ">Vouchers", ">Sent", ">Received"}, Empty: "No login is configured."}
		for _, one := range v.Logins {
			t.Rows = append(t.Rows, []string{one.Login, fmt.Sprint(one.Users), fmt.Sprint(one.Hosts), fmt.Sprint(one.Vouchers), service.Amount(int64(one.Sent)), service.Amount(int64(one.Received))})
		}
		return t
	}),
	service.NewView(service.View{Path: "login users", Short: "Show who is logged in"}, (*Login).Users, func(v Users) service.Table {
		t := service.Table{Head: []string{"~User", "MAC", "Address", "Until", ">Sent", ">Received"}, Empty: "Nobody is logged in."}
		for _, u := range v.Users {
			first := "-"
			if len(u.Addresses) > 0 {
				first = u.Addresses[0].String()
			}
			if n := len(u.Addresses); n > 1 {
				first += fmt.Sprintf(" +%d", n-1)
			}
			t.Rows = append(t.Rows, []string{u.User, u.MAC.String(), first, when(u.Until), service.Amount(int64(u.Sent)), service.Amount(int64(u.Received))})
		}
		return t
	}),
	service.NewView(service.View{Path: "login vouchers", Short: "Show vouchers, without their codes"}, (*Login).listed, func(v Vouchers) service.Table {
		t := service.Table{Head: []string{"Code", "Login", "State", "Until", ">Used", ">Devices", "~Comment"}, Empty: "There are no vouchers."}
		for _, c := range v.Vouchers {
			t.Rows = append(t.Rows, []string{c.Code, c.Login, c.State, when(c.Until), service.Amount(int64(c.Used.sum())), fmt.Sprintf("%d/%d", c.Now, c.Devices), c.Comment})
		}
		return t
	}),
	service.NewView(service.View{Path: "login blocks", Short: "Show hosts and accounts that may not log in now"}, (*Login).Blocks, func(v Blocks) service.Table {
		t := service.Table{Head: []string{"~Who", "Until", "~Comment"}, Empty: "Nobody is blocked."}
		for _, b := range v.Blocks {
			t.Rows = append(t.Rows, []string{b.MAC.String(), when(b.Until), b.Comment})
		}
		for _, b := range v.Locked {
			t.Rows = append(t.Rows, []string{b.Who, when(b.Until), "failed logins"})
		}
		return t
	}),
}
