// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"minne/internal/base/keyfile"
)

// Signatures. result.json.sig stands beside result.json and is text:
//
//	minne-lab-signature/1
//	key SHA256:…              fingerprint of the public key
//	public …                  the public key, base64
//	result …                  ed25519 signature of the bytes of result.json, base64
//	files …                   ed25519 signature of all lines below, base64
//	minne-lab-files/1
//	<sha256>  report.html     as sha256sum writes it, by name
//	<sha256>  result.json
//	<sha256>  throughput.csv
//
// "result" covers the measurement alone, so that result.json can travel with its
// signature only. "files" binds page and CSV to it. What is signed can't be taken for
// each other: a result begins with a brace, a list of files with its own name.
// Keys are those of package keyfile.

const (
	signatureHead = "minne-lab-signature/1"
	filesHead     = "minne-lab-files/1"
	smallFile     = 1 << 20 // bytes that a signature may have
)

// Sign signs a report: a directory, or its result.json. Page and CSV files are made anew from
// result.json first, so that nothing is signed that says something else. It
// returns the key's fingerprint and the names of the files that are signed.
func Sign(path string, key ed25519.PrivateKey) (fingerprint string, files []string, err error) {
	path, data, err := load(path)
	if err != nil {
		return "", nil, err
	}
	r, err := parse(path, data)
	if err != nil {
		return "", nil, err
	}
	made, err := derived(data, r)
	if err != nil {
		return "", nil, err
	}
	list := []string{digest(data) + "  " + ResultFile}
	for _, f := range made {
		if f.content != nil {
			list = append(list, digest(f.content)+"  "+f.name)
			files = append(files, f.name)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	listed := filesHead + "\n" + strings.Join(list, "\n") + "\n"
	public := key.Public().(ed25519.PublicKey)
	encode := base64.StdEncoding.EncodeToString
	text := fmt.Sprintf("%s\nkey %s\npublic %s\nresult %s\nfiles %s\n%s", signatureHead, keyfile.Fingerprint(public), encode(public), encode(ed25519.Sign(key, data)), encode(ed25519.Sign(key, []byte(listed))), listed)
	made = append(made, file{SignatureFile, []byte(text)})
	return keyfile.Fingerprint(public), append(files, ResultFile), place(filepath.Dir(path), made)
}

// Signed is what a signature says when it is right.
type Signed struct {
	Key         ed25519.PublicKey `json:"public_key"`
	Fingerprint string            `json:"fingerprint"`
	Known       string            `json:"known_as,omitempty"` // name of the trusted key; empty when none was given
	Files       []string          `json:"files"`              // that are as they were signed
	Absent      []string          `json:"absent,omitempty"`   // signed, but not here
}

// Trusted is a public key with the name of its file.
type Trusted struct {
	Name string
	Key  ed25519.PublicKey
}

// Verify checks the signature of a report: a directory, or its result.json. With trusted keys,
// it must be from one of them; without, the signer is whoever holds the key that
// Signed names. It fails when result.json or any file beside it that the page or the
// tables are made of is not what was signed.
func Verify(path string, trusted []Trusted) (*Signed, error) {
	path, data, err := load(path)
	if err != nil {
		return nil, err
	}
	name := path + ".sig"
	text, err := bounded(name, smallFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is not signed: the directory has no %s", path, filepath.Base(name))
	}
	if err != nil {
		return nil, err
	}
	s, err := parseSignature(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out := &Signed{Key: s.public, Fingerprint: keyfile.Fingerprint(s.public)}
	if i := slices.IndexFunc(trusted, func(t Trusted) bool { return t.Key.Equal(s.public) }); i >= 0 {
		out.Known = trusted[i].Name
	} else if len(trusted) > 0 {
		return nil, fmt.Errorf("%s: signed by %s, which is none of the %d keys given", path, out.Fingerprint, len(trusted))
	}
	if !ed25519.Verify(s.public, data, s.result) {
		return nil, fmt.Errorf("%s was changed after it was signed: its signature does not fit", path)
	}
	if !ed25519.Verify(s.public, s.listed, s.files) {
		return nil, fmt.Errorf("%s: the list of files was changed after it was signed", name)
	}
	return out, out.compare(path, data, s.listed)
}

// signature is a parsed result.json.sig.
type signature struct {
	public                ed25519.PublicKey
	result, files, listed []byte
}

func parseSignature(text []byte) (s signature, err error) {
	at := bytes.Index(text, []byte("\n"+filesHead+"\n"))
	if at < 0 {
		return s, fmt.Errorf("not a signature of a lab result: expected %q and a list of files", signatureHead)
	}
	s.listed = text[at+1:]
	lines := strings.Split(string(text[:at]), "\n")
	if len(lines) != 5 || lines[0] != signatureHead {
		return s, fmt.Errorf("not a signature of a lab result that this minne reads: expected %q", signatureHead)
	}
	fields := map[string][]byte{}
	for _, line := range lines[2:] {
		name, value, _ := strings.Cut(line, " ")
		if fields[name], err = base64.StdEncoding.DecodeString(value); err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
	}
	s.public, s.result, s.files = fields["public"], fields["result"], fields["files"]
	if len(s.public) != ed25519.PublicKeySize || lines[1] != "key "+keyfile.Fingerprint(s.public) {
		return s, errors.New("the public key is damaged: it does not fit its fingerprint")
	}
	return s, nil
}

// compare holds the files in the directory of result against the signed list.
func (o *Signed) compare(result string, data, listed []byte) error {
	dir := filepath.Dir(result)
	signed := map[string]bool{}
	var wrong []string
	for _, line := range strings.Split(strings.TrimSuffix(string(listed), "\n"), "\n")[1:] {
		sum, name, ok := strings.Cut(line, "  ")
		if !ok || name != filepath.Base(name) {
			return fmt.Errorf("%s.sig: line %q: expected a sum and the name of a file", result, line)
		}
		signed[name] = true
		content := data
		if name != ResultFile {
			var err error
			content, err = bounded(filepath.Join(dir, name), largest)
			if errors.Is(err, os.ErrNotExist) {
				o.Absent = append(o.Absent, name)
				continue
			}
			if err != nil {
				return err
			}
		}
		if digest(content) != sum {
			wrong = append(wrong, name+" was changed after it was signed")
			continue
		}
		o.Files = append(o.Files, name)
	}
	if !signed[ResultFile] {
		return fmt.Errorf("%s.sig: the list of files is without %s", result, ResultFile)
	}
	for _, name := range append(sheetNames(), PageFile) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil && !signed[name] {
			wrong = append(wrong, name+" does not belong to the report: it was not there when it was signed")
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s: %s", dir, strings.Join(wrong, "; "))
	}
	return nil
}
