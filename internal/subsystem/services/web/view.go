// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"context"
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"minne/internal/subsystem/services/service"
)

// view is show web.
var view = service.NewView(service.View{Path: "web", Short: "Show the web page: where it is, its certificate, who may log in"}, (*Server).Observe, table)

// Observed is what there is of the web page and the API over HTTPS.
type Observed struct {
	Listeners   []string  `json:"listeners"` // as "https on lan (port 443)"
	Fingerprint string    `json:"fingerprint,omitempty"`
	SelfSigned  bool      `json:"self_signed"`
	NotAfter    time.Time `json:"not_after,omitzero"`
	Accounts    []Account `json:"accounts"`
}

// Account is somebody who may log in.
type Account struct {
	Name  string `json:"name"`
	Token bool   `json:"token"`
	Role  string `json:"role"`
}

// Observe says what there is.
func (s *Server) Observe(context.Context) (Observed, error) {
	o := Observed{Listeners: []string{}, Accounts: []Account{}}
	for _, state := range s.listeners.States() {
		o.Listeners = append(o.Listeners, state.Facts...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.files.Known() {
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err == nil && len(o.Listeners) > 0 {
			o.Fingerprint, o.SelfSigned, o.NotAfter = fingerprint(leaf.Raw), leaf.Issuer.String() == leaf.Subject.String(), leaf.NotAfter
		}
	}
	for _, a := range s.all {
		o.Accounts = append(o.Accounts, Account{strings.TrimPrefix(a.name, tokenMark), a.token, a.role.String()})
	}
	slices.SortFunc(o.Accounts, func(a, b Account) int { return cmp.Or(cmp.Compare(a.Name, b.Name)) })
	return o, nil
}

func table(o Observed) service.Table {
	t := service.Table{Head: []string{"What", "~Value"}, Empty: "the web page is off: services.web switches it on"}
	if len(o.Listeners) == 0 {
		return t
	}
	for _, l := range o.Listeners {
		t.Rows = append(t.Rows, []string{"listens", l})
	}
	kind := "certificate"
	if o.SelfSigned {
		kind = "self-signed certificate"
	}
	// Two lines, as browsers show it.
	half := len(o.Fingerprint) / 2
	if half > 0 {
		t.Rows = append(t.Rows, []string{kind, "SHA-256 " + o.Fingerprint[:half] + "\n" + o.Fingerprint[half+1:]}, []string{"valid until", o.NotAfter.Format(time.DateOnly)})
	}
	for _, a := range o.Accounts {
		what := "user"
		if a.Token {
			what = "token"
		}
		t.Rows = append(t.Rows, []string{what, a.Name + ": " + a.Role})
	}
	return t
}
