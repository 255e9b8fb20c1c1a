// SPDX-License-Identifier: Apache-2.0

package router

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"minne/internal/base/medium"
	"minne/internal/model/config"
)

// fingerprinter tells whether a secret has changed, without keeping it. The key
// keeps a revision's fingerprints from being searched for weak secrets by
// somebody who can read revisions only.
type fingerprinter struct{ key []byte }

// newFingerprinter reads the key in stateDir, or makes it. A lost key costs one
// apply that finds all secrets changed.
func newFingerprinter(stateDir string) (fingerprinter, error) {
	path := filepath.Join(stateDir, "fingerprint.key")
	key, err := os.ReadFile(path)
	if err == nil && len(key) == sha256.Size {
		return fingerprinter{key}, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fingerprinter{}, fmt.Errorf("key of the secrets' fingerprints: %w", err)
	}
	key = make([]byte, sha256.Size)
	rand.Read(key) // never fails
	if err := storeKey(path, key); err != nil && !errors.Is(err, medium.ErrReadOnly) {
		return fingerprinter{}, fmt.Errorf("key of the secrets' fingerprints: %w", err)
	}
	return fingerprinter{key}, nil
}

func storeKey(path string, key []byte) error {
	done, err := medium.Writable(path)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, key, 0o600), done())
}

// of returns the fingerprints of the secrets and files that the configuration
// names: with another content, the same text is another configuration.
func (f fingerprinter) of(in Input) map[string]string {
	prints := make(map[string]string)
	for _, use := range config.SecretUses(in.Config) {
		if value, ok := in.Secrets.Get(use.Name); ok {
			prints[use.Name] = f.print(value)
		}
	}
	for path, text := range in.Firewall.Files {
		prints["file "+path] = f.print(text) // no secret's name has a blank
	}
	if in.Labels != nil {
		for path, text := range in.Labels.Files {
			prints["file "+path] = f.print(text)
		}
	}
	return prints
}

func (f fingerprinter) print(text string) string {
	mac := hmac.New(sha256.New, f.key)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}
