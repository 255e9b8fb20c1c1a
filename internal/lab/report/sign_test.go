// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minne/internal/base/keyfile"
)

// keyPair makes a key in a directory of the test's own.
func keyPair(t *testing.T) (path string, private ed25519.PrivateKey, public ed25519.PublicKey) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "key")
	public, err := keyfile.New(path)
	if err != nil {
		t.Fatal(err)
	}
	if private, err = keyfile.Private(path); err != nil {
		t.Fatal(err)
	}
	return path, private, public
}

// signed returns the directory of a signed report.
func signed(t *testing.T, private ed25519.PrivateKey) string {
	t.Helper()
	dir := written(t, fixture())
	if err := os.WriteFile(filepath.Join(dir, PageFile), []byte("says something else"), 0o644); err != nil {
		t.Fatal(err)
	}
	fingerprint, files, err := Sign(dir, private)
	if err != nil {
		t.Fatal(err)
	}
	if fingerprint != keyfile.Fingerprint(private.Public().(ed25519.PublicKey)) || !slices.Contains(files, ResultFile) || !slices.Contains(files, PageFile) || !slices.Contains(files, "trials.csv") {
		t.Errorf("signed by %s: %q", fingerprint, files)
	}
	return dir
}

func TestVerify(t *testing.T) {
	_, private, public := keyPair(t)
	dir := signed(t, private)
	for _, path := range []string{dir, filepath.Join(dir, ResultFile)} {
		s, err := Verify(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.Fingerprint != keyfile.Fingerprint(public) || s.Known != "" || len(s.Absent) != 0 || !slices.Contains(s.Files, "loss.csv") {
			t.Errorf("%+v", s)
		}
	}
	_, _, other := keyPair(t)
	if s, err := Verify(dir, []Trusted{{"other", other}, {"mine", public}}); err != nil || s.Known != "mine" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Verify(dir, []Trusted{{"other", other}}); err == nil || !strings.Contains(err.Error(), "none of the 1 keys given") {
		t.Errorf("another's signature was taken: %v", err)
	}
	if page := content(t, dir, PageFile); !bytes.Contains(page, []byte(digest(content(t, dir, ResultFile)))) {
		t.Error("a page that does not belong to the result was signed")
	}
}

// TestVerifyResultAlone: result.json and its signature can travel without the rest.
func TestVerifyResultAlone(t *testing.T) {
	_, private, _ := keyPair(t)
	from, to := signed(t, private), t.TempDir()
	for _, name := range []string{ResultFile, SignatureFile} {
		if err := os.WriteFile(filepath.Join(to, name), content(t, from, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Verify(to, nil)
	if err != nil || !slices.Equal(s.Files, []string{ResultFile}) || !slices.Contains(s.Absent, PageFile) {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestTampering: any change to what was signed is found.
func TestTampering(t *testing.T) {
	_, private, _ := keyPair(t)
	_, stranger, _ := keyPair(t)
	edit := func(name, old, new string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			before := content(t, dir, name)
			after := bytes.Replace(before, []byte(old), []byte(new), 1)
			if bytes.Equal(before, after) {
				t.Fatalf("%s has no %q", name, old)
			}
			if err := os.WriteFile(filepath.Join(dir, name), after, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		tamper func(t *testing.T, dir string)
		want   string
	}{
		{"a figure", edit(ResultFile, `"lower_fps": 2914`, `"lower_fps": 9914`), "was changed after it was signed"},
		{"white space", edit(ResultFile, "{\n", "{\n\n"), "was changed after it was signed"},
		{"page", edit(PageFile, "faster", "slower"), "report.html was changed after it was signed"},
		{"CSV", edit("throughput.csv", "kernel", "fast path"), "throughput.csv was changed after it was signed"},
		{"sum of the page", func(t *testing.T, dir string) {
			edit(SignatureFile, digest(content(t, dir, PageFile)), digest([]byte("forged")))(t, dir)
		}, "list of files was changed"},
		{"fewer files", edit(SignatureFile, PageFile, "nothing.html"), "list of files was changed"},
		{"key", func(t *testing.T, dir string) {
			edit(SignatureFile, keyfile.Fingerprint(private.Public().(ed25519.PublicKey)), keyfile.Fingerprint(stranger.Public().(ed25519.PublicKey)))(t, dir)
		}, "public key is damaged"},
		{"head", edit(SignatureFile, signatureHead, "minne-lab-signature/2"), "not a signature of a lab result that this minne reads"},
		{"signature of another result", func(t *testing.T, dir string) {
			r := fixture()
			r.Title = "another"
			other := written(t, r)
			if _, _, err := Sign(other, private); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, SignatureFile), content(t, other, SignatureFile), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "was changed after it was signed"},
		{"no signature", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, SignatureFile)); err != nil {
				t.Fatal(err)
			}
		}, "is not signed"},
		{"an added page", func(t *testing.T, dir string) {
			r := fixture()
			r.Soak = nil
			if err := Write(dir, r); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Sign(dir, private); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "soak.csv"), []byte("forged\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "soak.csv does not belong to the report"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := signed(t, private)
			c.tamper(t, dir)
			if _, err := Verify(dir, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v\nwant %q", err, c.want)
			}
		})
	}
}
