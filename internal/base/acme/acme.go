// SPDX-License-Identifier: Apache-2.0

// Package acme asks a certificate authority for a certificate (RFC 8555), and proves by HTTP that a name is the router's (http-01).
package acme

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
)

// ChallengePath is where the authority looks for proofs (RFC 8555, section 8.3).
const ChallengePath = "/.well-known/acme-challenge/"

// Request is what is asked for.
type Request struct {
	Directory string         // URL
	Roots     *x509.CertPool // that sign the directory's server; nil for those of the system
	Account   crypto.Signer
	Email     string // whom the authority may write to; "" for nobody
	Name      string // DNS
	Proofs    *Proofs
}

// Obtain returns a new key and the certificate for it with those above it, as PEM. It takes seconds, and as long as the authority
// wants; the caller bounds it by ctx.
func Obtain(ctx context.Context, q Request) ([]byte, error) {
	client := &acme.Client{Key: q.Account, DirectoryURL: q.Directory, UserAgent: "minne", HTTPClient: &http.Client{
		Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: q.Roots}, DisableKeepAlives: true}}}
	account := &acme.Account{}
	if q.Email != "" {
		account.Contact = []string{"mailto:" + q.Email}
	}
	if _, err := client.Register(ctx, account, acme.AcceptTOS); err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
		return nil, fmt.Errorf("register at %s: %w", q.Directory, err)
	}
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(q.Name))
	if err != nil {
		return nil, fmt.Errorf("order a certificate for %s: %w", q.Name, err)
	}
	for _, url := range order.AuthzURLs {
		if err := prove(ctx, client, url, q.Proofs); err != nil {
			return nil, fmt.Errorf("prove that %s is this router: %w", q.Name, err)
		}
	}
	if order, err = client.WaitOrder(ctx, order.URI); err != nil {
		return nil, fmt.Errorf("order a certificate for %s: %w", q.Name, err)
	}
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{q.Name}}, key)
	if err != nil {
		return nil, err
	}
	chain, _, err := client.CreateOrderCert(ctx, order.FinalizeURL, csr, true)
	if err != nil {
		return nil, fmt.Errorf("get the certificate for %s: %w", q.Name, err)
	}
	text, err := KeyPEM(key)
	for _, der := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return text, err
}

// prove lets the authority see that it is us, where it has not seen that before.
func prove(ctx context.Context, client *acme.Client, url string, proofs *Proofs) error {
	a, err := client.GetAuthorization(ctx, url)
	if err != nil || a.Status == acme.StatusValid {
		return err
	}
	at := slices.IndexFunc(a.Challenges, func(c *acme.Challenge) bool { return c.Type == "http-01" })
	if at < 0 {
		return errors.New("the authority takes no proof by HTTP")
	}
	challenge := a.Challenges[at]
	text, err := client.HTTP01ChallengeResponse(challenge.Token)
	if err != nil {
		return err
	}
	proofs.put(challenge.Token, text)
	defer proofs.put(challenge.Token, "")
	if _, err := client.Accept(ctx, challenge); err != nil {
		return err
	}
	_, err = client.WaitAuthorization(ctx, a.URI)
	var refused *acme.AuthorizationError
	if errors.As(err, &refused) && len(refused.Errors) > 0 {
		return errors.Join(refused.Errors...)
	}
	return err
}

// Proofs are what the authority is to find at ChallengePath while it looks. The zero value is ready, and safe for concurrent use.
type Proofs struct {
	mu  sync.Mutex
	all map[string]string // by token
}

func (p *Proofs) put(token, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]string{}
	}
	if p.all[token] = text; text == "" {
		delete(p.all, token)
	}
}

// ServeHTTP answers the authority; everybody else gets 404.
func (p *Proofs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.URL.Path, ChallengePath)
	p.mu.Lock()
	text := p.all[token]
	p.mu.Unlock()
	if text == "" || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write([]byte(text))
}

// NewKey is a key for an account or a certificate.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// KeyPEM is a key as it stands in a file.
func KeyPEM(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// ReadKey reads what KeyPEM has written.
func ReadKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no private key (PEM)")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("a key that can't sign")
	}
	return signer, nil
}
