// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	got, err := Keys(InTable, [][]byte{{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "mnk1\x00\x00\x00\x05\x00\x00\x00\x02\x00\x00\x00\x02\x01\x02\x03\x04\x05\x00\x00\x00\x06\x07\x08\x09\x0a\x00\x00\x00"; string(got) != want {
		t.Errorf("%q, expected %q", got, want)
	}
	for want, keys := range map[string][][]byte{
		"no keys":               nil,
		"key 1 has 0 bytes":     {{}},
		"key 1 has 65 bytes":    {make([]byte, 65)},
		"key 2 has 3 bytes: ex": {{1}, {1, 2, 3}},
	} {
		if _, err := Keys(Random, keys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

func TestPayload(t *testing.T) {
	got, err := Payload([][]byte{[]byte("hello"), nil})
	if err != nil {
		t.Fatal(err)
	}
	if want := "mnp1\x00\x00\x00\x02\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x00"; string(got) != want {
		t.Errorf("%q, expected %q", got, want)
	}
	for _, records := range [][][]byte{nil, {{}, {}}} {
		if _, err := Payload(records); err == nil {
			t.Error("a payload of nothing")
		}
	}
}

func TestRouter(t *testing.T) {
	got, err := Router(Direct24, 24, []byte{1, 2, 3, 4}, binary.BigEndian)
	if err != nil {
		t.Fatal(err)
	}
	// CRC-32C of 1, 2, 3, 4 is 0x29308cf4.
	want := []byte("mnf1\x00\x00\x00\x01\x00\x00\x00\x18\x00\x00\x00\x01\x29\x30\x8c\xf4" + strings.Repeat("\x00", 12) + "\x01\x02\x03\x04")
	if !bytes.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	if _, err := Router(Range, 18, make([]byte, 3), binary.LittleEndian); err == nil {
		t.Error("a table of 3 bytes")
	}
}

func TestChecksum(t *testing.T) {
	var same, turned, more Checksum
	same.Add(1)
	same.AddBool(false)
	turned.AddBool(false)
	turned.AddBool(true)
	more.Add(1)
	more.Add(0)
	more.Add(0)
	if same == turned || same == more || same == (Checksum{}) {
		t.Errorf("%v, %v, %v: the same", same, turned, more)
	}
	var record, split Checksum
	record.AddRecord([]int{3, 7})
	split.AddRecord([]int{3})
	split.AddRecord([]int{7})
	if record == split {
		t.Error("patterns of two records look like one's")
	}
	if want := "87c432ff6cbdb60a"; record.String() != want {
		t.Errorf("%v, expected %s", record, want)
	}
}
