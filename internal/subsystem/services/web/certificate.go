// SPDX-License-Identifier: Apache-2.0

package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"minne/internal/base/atomicfile"
	"minne/internal/base/certfile"
	"minne/internal/base/medium"
)

// Names of the files of a certificate that the router makes, in the directory web beside the configuration.
const (
	certificateFile = "certificate.pem"
	keyFile         = "key.pem"
)

// A self-signed certificate is compared by its fingerprint and not by its dates. A board without a clock believes in 1970
// when it makes it, so the dates are constants.
var (
	notBefore = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	notAfter  = time.Date(2049, 12, 31, 23, 59, 59, 0, time.UTC)
)

// usable makes the router's own certificate if there is none, and says why a certificate can't be used.
func (s *Server) usable(f certfile.Files) error {
	if f.Certificate == filepath.Join(s.dir, certificateFile) {
		if err := s.ensure(f); err != nil {
			return fmt.Errorf("certificate of the web page: %w", err)
		}
	}
	_, err := s.files.Read(f)
	return err
}

// ensure makes a key and a certificate, unless they are there. The certificate is the last to appear, so that a power cut
// leaves either none or a whole pair.
func (s *Server) ensure(f certfile.Files) (err error) {
	if _, err := os.Stat(f.Certificate); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	done, err := medium.Writable(s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	s.mu.Lock()
	names := s.names
	s.mu.Unlock()
	public, private, err := selfSigned(names)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(f.Key, private, 0o600, atomicfile.Durable); err != nil {
		return err
	}
	if err := atomicfile.Write(f.Certificate, public, 0o644, atomicfile.Durable); err != nil {
		return err
	}
	s.log.Info("made a self-signed certificate for the web page", "fingerprint", Fingerprint(s.base))
	return nil
}

// selfSigned makes a certificate for names and addresses, and its key, as PEM.
func selfSigned(names []string) (public, private []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	c := x509.Certificate{SerialNumber: number, Subject: pkix.Name{CommonName: "Minne router"}, NotBefore: notBefore, NotAfter: notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else if name != "" {
			c.Subject.CommonName = name
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

// Fingerprint is how the certificate that the router made is told to people who compare it with what the browser shows:
// SHA-256 of its bytes. "" when there is none. dir is the directory of the configuration.
func Fingerprint(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "web", certificateFile))
	if err != nil {
		return ""
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return ""
	}
	return fingerprint(block.Bytes)
}

func fingerprint(der []byte) string {
	var pairs []string
	for _, b := range sha256.Sum256(der) {
		pairs = append(pairs, fmt.Sprintf("%02X", b))
	}
	return strings.Join(pairs, ":")
}
