// SPDX-License-Identifier: Apache-2.0

package login

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"minne/internal/base/store"
)

// Voucher is a code that admits hosts for a time, which begins with its first use, and for some bytes.
type Voucher struct {
	Code    string    `json:"code"`
	Login   string    `json:"login"`
	Comment string    `json:"comment,omitempty"`
	Created time.Time `json:"created"`
	Time    Span      `json:"time,omitempty"`  // 0 for ever
	Bytes   uint64    `json:"bytes,omitempty"` // 0 for any number
	Devices int       `json:"devices"`
	First   time.Time `json:"first,omitzero"` // first use
	Used    Traffic   `json:"used"`           // by sessions that are over, and by others up to the last write
	Off     bool      `json:"off,omitempty"`  // deactivated
}

// alphabet of codes: without letters and digits that look alike. 32 of them, so that ten are 50 bits.
const (
	alphabet   = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
	codeLength = 10
)

// fill fills b with random bytes; crypto/rand does not fail.
func fill(b []byte) { _, _ = rand.Read(b) }

// token is n random bytes in hexadecimal digits.
func token(n int) string {
	b := make([]byte, n)
	fill(b)
	return hex.EncodeToString(b)
}

// newCode is a random code.
func newCode() string {
	b := make([]byte, codeLength)
	fill(b)
	for i := range b {
		b[i] = alphabet[b[i]&31] // 32 signs: no sign is likelier than another
	}
	return string(b)
}

// spelled is a code as people write it.
func spelled(code string) string { return code[:codeLength/2] + "-" + code[codeLength/2:] }

// readCode is what somebody typed as a code: case, dashes and spaces don't matter.
func readCode(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' || r == '_' {
			return -1
		}
		return r
	}, strings.ToUpper(text))
}

// digest is a code as the key of a voucher: comparing it takes no longer for a code that is nearly right.
func digest(code string) string {
	sum := sha256.Sum256([]byte(code))
	return hex.EncodeToString(sum[:16])
}

// until is when a voucher's time is up; zero for never, or when it was not used yet.
func (v *Voucher) until() time.Time {
	if v.Time == 0 || v.First.IsZero() {
		return time.Time{}
	}
	return v.First.Add(time.Duration(v.Time))
}

// useless says why a voucher admits nobody, "" if it does.
func (v *Voucher) useless(now time.Time) string {
	switch until := v.until(); {
	case v.Off:
		return "deactivated"
	case !until.IsZero() && !until.After(now):
		return "time is up"
	case v.Bytes > 0 && v.Used.sum() >= v.Bytes:
		return "bytes are used up"
	}
	return ""
}

// state is a word for lists.
func (v *Voucher) state(now time.Time) string {
	if why := v.useless(now); why != "" {
		return why
	}
	if v.First.IsZero() {
		return "new"
	}
	return "in use"
}

// byVoucher admits a host by a code. The caller holds mu.
func (l *Login) byVoucher(s *Session, text string) error {
	key := digest(readCode(text))
	v := l.vouchers[key]
	now := l.clock()
	if v == nil || v.Login != s.Login {
		return errWrong
	}
	if why := v.useless(now); why != "" {
		return refusal("This voucher does not work any more: " + why + ".")
	}
	s.Kind, s.Voucher, s.User = "voucher", key, "voucher "+v.Code[:3]
	if err := l.fits(s, v.Devices); err != nil {
		return err
	}
	isNew := v.First.IsZero()
	if isNew {
		v.First = now
	}
	used := *v
	s.Until = v.until()
	err := l.begin(s, store.Change{Bucket: bucketVouchers, Key: key, Value: &used})
	if isNew && err != nil && !errors.Is(err, errOver) && l.devices(s) == 0 { // it was not used
		v.First = time.Time{}
	}
	return err
}

// Bounds of what is asked for.
const (
	mostVouchers = 100_000
	mostComment  = 60
)

// VouchersWanted asks for new vouchers.
type VouchersWanted struct {
	Login   string `json:"login,omitempty"` // may be absent where there is one
	Count   int    `json:"count"`
	Seconds int64  `json:"seconds,omitempty"` // from the first use on; 0 for ever
	Bytes   uint64 `json:"bytes,omitempty"`
	Devices int    `json:"devices"`
	Comment string `json:"comment,omitempty"`
}

// Vouchers are vouchers with their codes.
type Vouchers struct {
	Title    string         `json:"title"`
	Portal   string         `json:"portal"` // where codes are typed in
	Vouchers []VoucherState `json:"vouchers"`
}

// VoucherState is a voucher as it is shown.
type VoucherState struct {
	Code    string    `json:"code"`
	Login   string    `json:"login"`
	State   string    `json:"state"`
	Comment string    `json:"comment,omitempty"`
	Seconds int64     `json:"seconds,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Bytes   uint64    `json:"bytes,omitempty"`
	Used    Traffic   `json:"used"`
	Devices int       `json:"devices"`
	Now     int       `json:"devices_now"`
	Created time.Time `json:"created"`
}

// only is the login of a name, or the only one. The caller holds mu.
func (l *Login) only(name string) (string, error) {
	all := slices.Sorted(maps.Keys(l.settings))
	switch {
	case name == "" && len(all) == 1:
		return all[0], nil
	case name == "" && len(all) > 1:
		return "", fmt.Errorf("which login? --login %s", strings.Join(all, " or "))
	case !slices.Contains(all, name):
		return "", fmt.Errorf("no login %q in the running configuration; there are: %s", name, cmp.Or(strings.Join(all, ", "), "none"))
	}
	return name, nil
}

// AddVouchers makes vouchers.
func (l *Login) AddVouchers(q VouchersWanted) (Vouchers, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name, err := l.only(q.Login)
	if err != nil {
		return Vouchers{}, err
	}
	switch {
	case !slices.Contains(l.settings[name].Login.Users, "vouchers"):
		return Vouchers{}, fmt.Errorf("login %s takes no vouchers: write users: [vouchers] in its section", name)
	case q.Count < 1 || q.Count+len(l.vouchers) > mostVouchers:
		return Vouchers{}, fmt.Errorf("%d vouchers: expected 1 to %d, with those that there are", q.Count, mostVouchers)
	case q.Seconds != 0 && (q.Seconds < 60 || q.Seconds > 10*365*24*3600):
		return Vouchers{}, errors.New("the time of a voucher is from one minute to ten years")
	case q.Devices < 1 || q.Devices > 100:
		return Vouchers{}, errors.New("the devices of a voucher are from 1 to 100")
	case len(q.Comment) > mostComment || strings.ContainsFunc(q.Comment, func(r rune) bool { return r < ' ' }):
		return Vouchers{}, fmt.Errorf("the comment has more than %d bytes, or signs that are no text", mostComment)
	}
	var changes []store.Change
	made := map[string]*Voucher{}
	for len(made) < q.Count {
		v := &Voucher{Code: newCode(), Login: name, Comment: q.Comment, Created: l.clock().UTC().Round(time.Second), Time: Span(time.Duration(q.Seconds) * time.Second), Bytes: q.Bytes, Devices: q.Devices}
		key := digest(v.Code)
		if l.vouchers[key] != nil || made[key] != nil {
			continue
		}
		made[key] = v
		changes = append(changes, store.Change{Bucket: bucketVouchers, Key: key, Value: v})
	}
	if err := l.store.Write(changes...); err != nil {
		return Vouchers{}, err
	}
	maps.Copy(l.vouchers, made)
	l.log.Info("vouchers made", "login", name, "count", q.Count, "comment", q.Comment)
	return l.show(made), nil
}

// show is vouchers in the order in which they were made. The caller holds mu.
func (l *Login) show(some map[string]*Voucher) Vouchers {
	now := l.clock()
	v := Vouchers{Vouchers: []VoucherState{}}
	count := map[string]int{}
	for _, s := range l.sessions {
		count[s.Voucher]++
	}
	for key, one := range some {
		v.Title, v.Portal = l.settings[one.Login].Login.Title, l.address(one.Login)
		v.Vouchers = append(v.Vouchers, VoucherState{Code: spelled(one.Code), Login: one.Login, State: one.state(now), Comment: one.Comment,
			Seconds: int64(time.Duration(one.Time) / time.Second), Until: one.until(), Bytes: one.Bytes, Used: one.Used, Devices: one.Devices, Now: count[key], Created: one.Created})
	}
	slices.SortFunc(v.Vouchers, func(a, b VoucherState) int {
		return cmp.Or(cmp.Compare(a.Login, b.Login), a.Created.Compare(b.Created), cmp.Compare(a.Code, b.Code))
	})
	return v
}

// VouchersChosen names vouchers: those with one of the codes, or with a comment.
type VouchersChosen struct {
	Codes   []string `json:"codes,omitempty"`
	Comment string   `json:"comment,omitempty"`
	All     bool     `json:"all,omitempty"`
	Do      string   `json:"do,omitempty"` // activate, deactivate or remove; "" to look
}

// chosen are the vouchers that are named. The caller holds mu.
func (l *Login) chosen(q VouchersChosen) (map[string]*Voucher, error) {
	some := map[string]*Voucher{}
	for _, text := range q.Codes {
		key := digest(readCode(text))
		if l.vouchers[key] == nil {
			return nil, fmt.Errorf("there is no voucher %s", text)
		}
		some[key] = l.vouchers[key]
	}
	for key, v := range l.vouchers {
		if q.All || q.Comment != "" && v.Comment == q.Comment {
			some[key] = v
		}
	}
	if len(some) == 0 && !q.All {
		return nil, errors.New("no voucher is chosen: name codes, or --comment")
	}
	return some, nil
}

// ChooseVouchers shows vouchers, and does something with them.
func (l *Login) ChooseVouchers(q VouchersChosen) (Vouchers, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	some, err := l.chosen(q)
	if err != nil {
		return Vouchers{}, err
	}
	if q.Do == "" {
		return l.show(some), nil
	}
	var changes []store.Change
	for key, v := range some {
		c := store.Change{Bucket: bucketVouchers, Key: key}
		if q.Do != "remove" {
			next := *v
			next.Off = q.Do == "deactivate"
			c.Value = &next
		}
		changes = append(changes, c)
	}
	if err := l.store.Write(changes...); err != nil {
		return Vouchers{}, err
	}
	if q.Do != "activate" {
		var over []ending
		for id, s := range l.sessions {
			if some[s.Voucher] != nil {
				over = append(over, ending{id, "its voucher was " + q.Do + "d"})
			}
		}
		l.endAll(over)
	}
	for key, v := range some {
		if v.Off = q.Do == "deactivate"; q.Do == "remove" {
			delete(l.vouchers, key)
		}
	}
	if q.Do == "remove" { // what the end of sessions has written again
		if err := l.store.Write(changes...); err != nil {
			return Vouchers{}, err
		}
	}
	return l.show(some), nil
}
