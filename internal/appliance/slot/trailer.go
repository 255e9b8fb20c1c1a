// SPDX-License-Identifier: Apache-2.0

// Package slot knows the medium that the router's image boots from: the two
// partitions that hold a system each, and the few words beside them that say
// which one to boot.
//
// A slot holds a payload, a squashfs from its first byte on and further ones behind it for what is added to it (see Layer),
// and a trailer in its last 4096 bytes that describes the payload:
//
//	MINNE-SLOT 1
//	{"version":"1.2.3","arch":"amd64","built":"…","schema":1,"size":33554432,"sha256":"…"}
//	<base64 of the ed25519 signature of the line above, without its newline; empty when nobody signed>
//	zeros up to 4096 bytes
//
// An upgrade file is the payload with the trailer directly behind it, so the
// trailer is read from the end in both. Who writes a slot zeroes the trailer
// before the payload changes and writes it last: a slot with a trailer is whole.
package slot

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// TrailerSize is the length of a trailer in bytes.
const TrailerSize = 4096

// magic is the first line of a trailer; the number is the version of the format.
const magic = "MINNE-SLOT 1"

// ErrNoTrailer is wrapped by the error for a slot or file that holds no system.
var ErrNoTrailer = errors.New("holds no system")

// ErrDamaged is wrapped by the error for a payload that is not what its trailer says.
var ErrDamaged = errors.New("damaged")

// System describes the payload of a slot or an upgrade file.
type System struct {
	Version string    `json:"version"`
	Arch    string    `json:"arch"` // as Go and Debian name it: amd64
	Built   time.Time `json:"built"`
	Schema  int       `json:"schema"`           // version of the configuration format it reads
	Size    int64     `json:"size"`             // of the payload in bytes
	SHA256  string    `json:"sha256"`           // of the payload, hex
	Layers  []Layer   `json:"layers,omitempty"` // of a payload with sets; none: the payload is the base alone
}

// Trailer is a system's description as it stands on the medium.
type Trailer struct {
	System
	line      []byte // the JSON as it was signed
	signature []byte // nil when nobody signed
}

// Describe reads a payload to its end and returns its description: size and hash
// are set, the rest is taken from s.
func Describe(s System, payload io.Reader) (System, error) {
	h := sha256.New()
	n, err := io.Copy(h, payload)
	if err != nil {
		return System{}, fmt.Errorf("read payload: %w", err)
	}
	s.Size, s.SHA256 = n, hex.EncodeToString(h.Sum(nil))
	s.Built = s.Built.UTC().Truncate(time.Second)
	return s, nil
}

// Seal returns the trailer of a system as its 4096 bytes, signed by key, or
// unsigned when key is nil. Ed25519 gives one signature for one text, so sealing
// is reproducible.
func Seal(s System, key ed25519.PrivateKey) ([]byte, error) {
	line, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("trailer: %w", err)
	}
	signature := ""
	if key != nil {
		signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, line))
	}
	text := fmt.Sprintf("%s\n%s\n%s\n", magic, line, signature)
	if len(text) > TrailerSize {
		return nil, fmt.Errorf("trailer: %d bytes, at most %d fit: shorten the version", len(text), TrailerSize)
	}
	trailer := make([]byte, TrailerSize)
	copy(trailer, text)
	return trailer, nil
}

// Read reads the trailer at the end of a slot or an upgrade file of size bytes.
func Read(r io.ReaderAt, size int64) (Trailer, error) {
	if size < TrailerSize {
		return Trailer{}, fmt.Errorf("%w: %d bytes are less than a trailer", ErrNoTrailer, size)
	}
	raw := make([]byte, TrailerSize)
	if _, err := r.ReadAt(raw, size-TrailerSize); err != nil {
		return Trailer{}, fmt.Errorf("read trailer: %w", err)
	}
	t, err := parse(raw)
	if err != nil {
		return Trailer{}, err
	}
	if t.Size <= 0 || t.Size > size-TrailerSize {
		return Trailer{}, fmt.Errorf("%w: trailer says %d bytes, expected at most %d", ErrDamaged, t.Size, size-TrailerSize)
	}
	return t, nil
}

func parse(raw []byte) (Trailer, error) {
	first, rest, _ := bytes.Cut(raw, []byte("\n"))
	if string(first) != magic {
		return Trailer{}, fmt.Errorf("%w: no %q line at its end", ErrNoTrailer, magic)
	}
	line, rest, ok := bytes.Cut(rest, []byte("\n"))
	signed, rest, ok2 := bytes.Cut(rest, []byte("\n"))
	if !ok || !ok2 || len(bytes.Trim(rest, "\x00")) > 0 {
		return Trailer{}, fmt.Errorf("%w: trailer: expected three lines", ErrDamaged)
	}
	t := Trailer{line: line}
	if err := json.Unmarshal(line, &t.System); err != nil {
		return Trailer{}, fmt.Errorf("%w: trailer: %w", ErrDamaged, err)
	}
	if len(signed) > 0 {
		var err error
		if t.signature, err = base64.StdEncoding.DecodeString(string(signed)); err != nil {
			return Trailer{}, fmt.Errorf("%w: trailer: signature: %w", ErrDamaged, err)
		}
	}
	return t, nil
}

// Signed reports whether key signed the description. The description holds the
// payload's hash, so a signed trailer and CheckPayload together vouch for all of it.
func (t Trailer) Signed(key ed25519.PublicKey) bool {
	return len(t.signature) == ed25519.SignatureSize && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, t.line, t.signature)
}

// HasSignature reports whether anybody signed the description.
func (t Trailer) HasSignature() bool { return t.signature != nil }

// CheckPayload reads the payload from r and compares it with the description.
func (t Trailer) CheckPayload(r io.Reader) error {
	h := sha256.New()
	n, err := io.CopyN(h, r, t.Size)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: ends after %d of %d bytes", ErrDamaged, n, t.Size)
	}
	if err != nil {
		return fmt.Errorf("read payload: %w", err)
	}
	if have := hex.EncodeToString(h.Sum(nil)); have != t.SHA256 {
		return fmt.Errorf("%w: SHA-256 is %s, expected %s", ErrDamaged, have, t.SHA256)
	}
	return nil
}

// Raw returns the trailer as its 4096 bytes.
func (t Trailer) Raw() []byte {
	signature := base64.StdEncoding.EncodeToString(t.signature)
	raw := make([]byte, TrailerSize)
	copy(raw, fmt.Sprintf("%s\n%s\n%s\n", magic, t.line, signature))
	return raw
}
