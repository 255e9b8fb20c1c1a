// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

// imageFile is what ./dev image made.
func imageFile(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../build/minne.img")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// part is a partition, in bytes.
type part struct{ start, size int64 }

// partitions reads the GPT of a disk by the names in it (UEFI 2.10, 5.3).
func partitions(t *testing.T, disk string) map[string]part {
	t.Helper()
	f := open(t, disk)
	header := make([]byte, 512)
	if _, err := f.ReadAt(header, 512); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(header, []byte("EFI PART")) {
		t.Fatal("the disk has no GPT")
	}
	at := int64(binary.LittleEndian.Uint64(header[72:])) * 512
	count, size := binary.LittleEndian.Uint32(header[80:]), int64(binary.LittleEndian.Uint32(header[84:]))
	found := map[string]part{}
	for i := range int64(count) {
		e := make([]byte, size)
		if _, err := f.ReadAt(e, at+i*size); err != nil {
			t.Fatal(err)
		}
		units := make([]uint16, 36)
		for j := range units {
			units[j] = binary.LittleEndian.Uint16(e[56+2*j:])
		}
		name := strings.TrimRight(string(utf16.Decode(units)), "\x00")
		first, last := int64(binary.LittleEndian.Uint64(e[32:])), int64(binary.LittleEndian.Uint64(e[40:]))
		if name != "" {
			found[name] = part{first * 512, (last - first + 1) * 512}
		}
	}
	return found
}
