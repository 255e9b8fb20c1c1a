// SPDX-License-Identifier: Apache-2.0

package login

import (
	"strings"

	"minne/internal/base/store"
)

// What users and vouchers have used is booked here: each byte of a session once, whatever becomes of the session. A quota is one of
// bytes in a calendar month of the router's time zone, for all devices of a user together.

// Account is what a user has used in a month.
type Account struct {
	Month string  `json:"month"` // 2006-01
	Used  Traffic `json:"used"`
}

const bucketAccounts = "login accounts"

func (t *Traffic) add(o Traffic) { t.Sent, t.Received = t.Sent+o.Sent, t.Received+o.Received }

// month is the calendar month.
func (l *Login) month() string { return l.clock().Local().Format("2006-01") }

// metered says whether a session's user has a quota.
func (l *Login) metered(s *Session) bool {
	return l.settings[s.Login].Quota > 0 && s.Kind != "voucher" && s.Kind != "operator"
}

// quotaKey names a user: names have no spaces.
func quotaKey(s *Session) string { return strings.Join([]string{s.Login, s.Kind, s.User}, " ") }

// account is that of a session's user in this month. A clock that goes back begins no new month. The caller holds mu.
func (l *Login) account(s *Session) *Account {
	a := l.accounts[quotaKey(s)]
	if a == nil {
		a = &Account{}
		l.accounts[quotaKey(s)] = a
	}
	if month := l.month(); month > a.Month {
		*a = Account{Month: month}
	}
	return a
}

// book adds what a session has transferred since to what its user and its voucher have used. The caller holds mu.
func (l *Login) book(s *Session) {
	now := Traffic{s.Traffic.Sent - s.Booked.Sent, s.Traffic.Received - s.Booked.Received}
	s.Booked = s.Traffic
	if v := l.vouchers[s.Voucher]; v != nil {
		v.Used.add(now)
	}
	if l.metered(s) {
		l.account(s).Used.add(now)
	}
}

// spend books, and returns what to store. The caller holds mu.
func (l *Login) spend(s *Session) (list []store.Change) {
	l.book(s)
	if v := l.vouchers[s.Voucher]; v != nil {
		list = append(list, store.Change{Bucket: bucketVouchers, Key: s.Voucher, Value: v})
	}
	if l.metered(s) {
		list = append(list, store.Change{Bucket: bucketAccounts, Key: quotaKey(s), Value: l.account(s)})
	}
	return list
}

// bytesLeft is what a session may still transfer, and whether there is a bound. The caller holds mu.
func (l *Login) bytesLeft(s *Session) (left uint64, bounded bool) {
	bound := func(most, used uint64) {
		if n := most - min(most, used); !bounded || n < left {
			left, bounded = n, true
		}
	}
	if s.Bytes > 0 {
		bound(s.Bytes, s.Traffic.sum())
	}
	if v := l.vouchers[s.Voucher]; v != nil && v.Bytes > 0 {
		bound(v.Bytes, v.Used.sum())
	}
	if l.metered(s) {
		bound(l.settings[s.Login].Quota, l.account(s).Used.sum())
	}
	return left, bounded
}

// usedUp says why a session may transfer nothing any more, "" if it may. The caller holds mu.
func (l *Login) usedUp(s *Session) string {
	switch left, bounded := l.bytesLeft(s); {
	case !bounded || left > 0:
		return ""
	case l.metered(s) && l.account(s).Used.sum() >= l.settings[s.Login].Quota:
		return "its quota of the month is used up"
	}
	return "its bytes are used up"
}

// forgetMonths removes the accounts of months that are over. The caller holds mu.
func (l *Login) forgetMonths() (list []store.Change) {
	month := l.month()
	if month <= l.tidied {
		return nil
	}
	l.tidied = month
	for key, a := range l.accounts {
		if a.Month < month {
			delete(l.accounts, key)
			list = append(list, store.Change{Bucket: bucketAccounts, Key: key})
		}
	}
	return list
}
