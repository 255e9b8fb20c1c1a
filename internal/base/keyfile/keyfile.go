// SPDX-License-Identifier: Apache-2.0

// Package keyfile makes and reads the ed25519 keys that sign reports and upgrades:
// PEM, PKCS#8 and PKIX, as OpenSSL writes and reads them.
package keyfile

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
)

// largest is how many bytes of a file are looked at.
const largest = 64 << 10

// Fingerprint names a public key: SHA-256 of its 32 bytes in base64, as OpenSSH does.
func Fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// New makes a key pair: the private key in path, for its owner only, the public one in
// path.pub. It overwrites neither. It returns the public key.
func New(path string) (ed25519.PublicKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	open, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path + ".pub"); err == nil {
		return nil, fmt.Errorf("%s.pub exists already and keys are never overwritten: choose another name", path)
	}
	if err := writeNew(path, &pem.Block{Type: "PRIVATE KEY", Bytes: secret}, 0o600); err != nil {
		return nil, err
	}
	if err := writeNew(path+".pub", &pem.Block{Type: "PUBLIC KEY", Bytes: open}, 0o644); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return public, nil
}

func writeNew(path string, block *pem.Block, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already and keys are never overwritten: choose another name", path)
	}
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if err := errors.Join(pem.Encode(f, block), f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("key: %w", err), os.Remove(path))
	}
	return nil
}

// Private reads a private key, PKCS#8 in PEM.
func Private(path string) (ed25519.PrivateKey, error) {
	block, err := readPEM(path, "PRIVATE KEY", "the private key that minne lab keygen made")
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(block)
	if private, ok := key.(ed25519.PrivateKey); ok && err == nil {
		return private, nil
	}
	return nil, fmt.Errorf("%s: expected an ed25519 private key (PKCS#8)", path)
}

// Public reads a public key, PKIX in PEM.
func Public(path string) (ed25519.PublicKey, error) {
	block, err := readPEM(path, "PUBLIC KEY", "a public key, which minne lab keygen names .pub")
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKIXPublicKey(block)
	if public, ok := key.(ed25519.PublicKey); ok && err == nil {
		return public, nil
	}
	return nil, fmt.Errorf("%s: expected an ed25519 public key (PKIX)", path)
}

func readPEM(path, kind, expected string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, largest))
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s: expected %s: PEM with %q", path, expected, kind)
	}
	return block.Bytes, nil
}
