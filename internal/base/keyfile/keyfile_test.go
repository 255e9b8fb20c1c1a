// SPDX-License-Identifier: Apache-2.0

package keyfile

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// keyPair makes a key in a directory of the test's own.
func keyPair(t *testing.T) (path string, private ed25519.PrivateKey, public ed25519.PublicKey) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "key")
	made, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	if private, err = Private(path); err != nil {
		t.Fatal(err)
	}
	if public, err = Public(path + ".pub"); err != nil {
		t.Fatal(err)
	}
	if !made.Equal(public) || !private.Public().(ed25519.PublicKey).Equal(public) {
		t.Fatal("the files hold another key than was made")
	}
	return path, private, public
}

func TestNew(t *testing.T) {
	path, _, _ := keyPair(t)
	s, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if s.Mode().Perm() != 0o600 {
		t.Errorf("others may read the private key: mode %o", s.Mode().Perm())
	}
	before := content(t, path)
	if _, err := New(path); err == nil || !strings.Contains(err.Error(), "never overwritten") {
		t.Errorf("a key was overwritten: %v", err)
	}
	if !bytes.Equal(content(t, path), before) {
		t.Error("the key is another one now")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := New(path); err == nil {
		t.Error("a public key was overwritten")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a refused key left a file")
	}
}

func TestKeysAreTold(t *testing.T) {
	path, _, _ := keyPair(t)
	if _, err := Private(path + ".pub"); err == nil || !strings.Contains(err.Error(), "expected the private key") {
		t.Errorf("a public key was taken for a private one: %v", err)
	}
	if _, err := Public(path); err == nil || !strings.Contains(err.Error(), "expected a public key") {
		t.Errorf("a private key was taken for a public one: %v", err)
	}
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Public(junk); err == nil || !strings.Contains(err.Error(), "expected an ed25519 public key") {
		t.Errorf("junk was taken for a key: %v", err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
