// SPDX-License-Identifier: Apache-2.0

package testimage

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// record is an entry of a log: a flag, and sectors that all hold one letter.
func record(flags uint64, sector uint64, letters string) []byte {
	head := make([]byte, Sector)
	binary.LittleEndian.PutUint64(head, sector)
	binary.LittleEndian.PutUint64(head[8:], uint64(len(letters)))
	binary.LittleEndian.PutUint64(head[16:], flags)
	for _, letter := range []byte(letters) {
		head = append(head, bytes.Repeat([]byte{letter}, Sector)...)
	}
	return head
}

// What was flushed stays, of the rest any sector may be missing, and never more is
// there than was written.
func TestReplay(t *testing.T) {
	super := make([]byte, Sector)
	binary.LittleEndian.PutUint64(super, logMagic)
	binary.LittleEndian.PutUint32(super[24:], Sector)
	log := bytes.Join([][]byte{super, record(0, 1, "ab"), record(logFlush, 0, ""), record(0, 2, "cd"), record(logFUA, 0, "e"), record(0, 0, "f"), make([]byte, 3*Sector)}, nil)
	dir := t.TempDir()
	disk, file := filepath.Join(dir, "disk"), filepath.Join(dir, "log")
	if err := os.WriteFile(disk, bytes.Repeat([]byte{'.'}, 5*Sector), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, log, 0o600); err != nil {
		t.Fatal(err)
	}
	r := NewReplay(t, disk, file)
	if len(r.Writes) != 6 {
		t.Fatalf("%d writes, want 6", len(r.Writes))
	}
	letters := func() string {
		b := make([]byte, 5*Sector)
		if _, err := r.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(dir, "copy")
		if err := r.Copy(copied, 0, 5*Sector); err != nil {
			t.Fatal(err)
		}
		if same, err := os.ReadFile(copied); err != nil || !bytes.Equal(same, b) {
			t.Errorf("the copy differs: %v", err)
		}
		text := ""
		for i := 0; i < len(b); i += Sector {
			text += string(b[i])
		}
		return text
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		n    int
		kept float64
		want []string
	}{
		{0, 1, []string{"....."}},
		{1, 0, []string{"....."}},
		{1, 1, []string{".ab.."}},
		{2, 0, []string{".ab.."}},
		{3, 0, []string{".ab.."}},
		{3, 0.5, []string{".ab..", ".ac..", ".abd.", ".acd."}},
		{5, 0, []string{"eacd."}},
		{6, 1, []string{"facd."}},
	} {
		seen := map[string]bool{}
		for range 60 {
			if err := r.Cut(c.n, c.kept, random); err != nil {
				t.Fatal(err)
			}
			seen[letters()] = true
		}
		for _, w := range c.want {
			if !seen[w] {
				t.Errorf("after %d writes, %v kept: %q did not come", c.n, c.kept, w)
			}
			delete(seen, w)
		}
		if len(seen) > 0 {
			t.Errorf("after %d writes, %v kept: %v", c.n, c.kept, seen)
		}
	}
}
