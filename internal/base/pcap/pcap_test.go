// SPDX-License-Identifier: Apache-2.0

package pcap

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWrittenIsRead writes a file and reads it back; tcpdump reads it too.
func TestWrittenIsRead(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, "minne", 100)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	for i, size := range []int{14, 61, 100} {
		frame := append(make([]byte, 12), 0x88, 0xcc)
		frame = append(frame, bytes.Repeat([]byte{byte(i)}, size-14)...)
		k := Packet{Interface: []string{"lan", "wan"}[i%2], Time: start.Add(time.Duration(i)), Direction: Inbound, Frame: frame, Wire: size + i, Comment: strings.Repeat("x", i)}
		if err := w.Write(k); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(start, 3, 7); err != nil {
		t.Fatal(err)
	}
	var got []Record
	err = Read(bytes.NewReader(file.Bytes()), func(r Record) error {
		r.Frame = bytes.Clone(r.Frame)
		got = append(got, r)
		return nil
	})
	if err != nil || len(got) != 3 {
		t.Fatalf("%d records, %v", len(got), err)
	}
	for i, size := range []int{14, 61, 100} {
		if r := got[i]; r.Link != Ethernet || len(r.Frame) != size || int(r.Wire) != size+i || r.Time != uint64(start.UnixNano())+uint64(i) || size > 14 && r.Frame[14] != byte(i) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	path := filepath.Join(t.TempDir(), "file.pcapng")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tcpdump", "-n", "-r", path).Output()
	if lines := strings.Count(string(out), "\n"); err != nil || lines < 3 {
		t.Errorf("tcpdump: %v\n%s", err, out)
	}
}

// TestReaderStops ends the reading with the reader's own error.
func TestReaderStops(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, "minne", 100)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Write(Packet{Interface: "lan", Frame: make([]byte, 60), Wire: 60}); err != nil {
			t.Fatal(err)
		}
	}
	enough, calls := errors.New("enough"), 0
	err = Read(&file, func(Record) error { calls++; return enough })
	if err != enough || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
