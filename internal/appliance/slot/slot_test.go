// SPDX-License-Identifier: Apache-2.0

package slot

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var payload = bytes.Repeat([]byte("squash"), 3000)

func sealed(t *testing.T, key ed25519.PrivateKey) []byte {
	t.Helper()
	s, err := Describe(System{Version: "1.2.3", Arch: "amd64", Built: time.Unix(1700000000, 0), Schema: 1}, bytes.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	trailer, err := Seal(s, key)
	if err != nil {
		t.Fatal(err)
	}
	return trailer
}

func TestTrailer(t *testing.T) {
	public, private, _ := ed25519.GenerateKey(nil)
	other, _, _ := ed25519.GenerateKey(nil)
	file := append(bytes.Clone(payload), sealed(t, private)...)
	// In a partition there is unused room between payload and trailer.
	partition := append(append(bytes.Clone(payload), make([]byte, 5000)...), sealed(t, private)...)
	for name, medium := range map[string][]byte{"upgrade file": file, "partition": partition} {
		got, err := Read(bytes.NewReader(medium), int64(len(medium)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Version != "1.2.3" || got.Size != int64(len(payload)) || got.Schema != 1 {
			t.Errorf("%s: read %+v", name, got.System)
		}
		if !got.Signed(public) || got.Signed(other) || got.Signed(nil) {
			t.Errorf("%s: signed by its key %v, by another %v", name, got.Signed(public), got.Signed(other))
		}
		if err := got.CheckPayload(bytes.NewReader(medium)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		medium[100] ^= 1
		if err := got.CheckPayload(bytes.NewReader(medium)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: a flipped bit gave %v", name, err)
		}
	}
}

func TestLayers(t *testing.T) {
	var medium bytes.Buffer
	base, wifi, snmp := bytes.Repeat([]byte("base"), 30000), []byte("of Wi-Fi"), bytes.Repeat([]byte("snmp"), 40000)
	layers, err := Pack(&medium, []string{Base, "wifi", "snmp"}, []io.Reader{bytes.NewReader(base), bytes.NewReader(wifi), bytes.NewReader(snmp)})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]byte{base, wifi, snmp} {
		l := layers[i]
		if l.At%layerAlign != 0 || !bytes.Equal(medium.Bytes()[l.At:l.At+l.Bytes], want) || l.Hash != fmt.Sprintf("%x", sha256.Sum256(want)) {
			t.Errorf("layer %+v", l)
		}
	}
	s, err := Describe(System{Version: "1", Arch: "amd64", Layers: layers}, bytes.NewReader(medium.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	trailer, err := Seal(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	medium.Write(trailer)
	got, err := Read(bytes.NewReader(medium.Bytes()), int64(medium.Len()))
	if err != nil || got.CheckPayload(bytes.NewReader(medium.Bytes())) != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if sets := got.Sets(); !slices.Equal(sets, []string{"wifi", "snmp"}) {
		t.Errorf("sets %q", sets)
	}
	if lost := got.Lacks(System{Layers: layers[:2]}); !slices.Equal(lost, []string{"snmp"}) {
		t.Errorf("lost are %q", lost)
	}
	if lost := (System{}).Lacks(got.System); len(lost) > 0 {
		t.Errorf("a base alone loses %q", lost)
	}
	// An initramfs that knows no layers takes what stands behind the last of these words.
	line := string(trailer)
	if at := strings.LastIndex(line, `"size":`); !strings.HasPrefix(line[at:], fmt.Sprintf(`"size":%d,`, s.Size)) || strings.Count(line, `"sha256"`) != 1 {
		t.Errorf("size and hash of the whole payload are not the last of their names:\n%s", line)
	}
}

func TestTrailerRefused(t *testing.T) {
	public, private, _ := ed25519.GenerateKey(nil)
	good := sealed(t, private)
	edit := func(old, new string) []byte { return bytes.Replace(bytes.Clone(good), []byte(old), []byte(new), 1) }
	for name, c := range map[string]struct {
		trailer []byte
		want    error
	}{
		"nothing there":     {make([]byte, TrailerSize), ErrNoTrailer},
		"another format":    {edit("MINNE-SLOT 1", "MINNE-SLOT 2"), ErrNoTrailer},
		"too big a payload": {edit(`"size":18000`, `"size":99000`), ErrDamaged},
		"words behind":      {append(bytes.Clone(good[:TrailerSize-1]), 'x'), ErrDamaged},
		"no JSON":           {edit(`{"version"`, `["version"`), ErrDamaged},
	} {
		medium := append(bytes.Clone(payload), c.trailer...)
		if _, err := Read(bytes.NewReader(medium), int64(len(medium))); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	forged, err := parse(edit("1.2.3", "1.2.4"))
	if err != nil {
		t.Fatal(err)
	}
	if forged.Signed(public) {
		t.Error("a changed version is still signed")
	}
	unsigned, err := parse(sealed(t, nil))
	if err != nil || unsigned.HasSignature() || unsigned.Signed(public) {
		t.Errorf("unsigned: %+v, %v", unsigned, err)
	}
	if _, err := Read(bytes.NewReader(payload[:100]), 100); !errors.Is(err, ErrNoTrailer) {
		t.Errorf("a short file gave %v", err)
	}
}

func TestState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readState(path); err == nil {
		t.Error("an empty partition was read as a boot state")
	}
	fresh, err := State{Slot: "a"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(make([]byte, StateOffset), fresh...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range []State{{}, {Slot: "a"}, {Slot: "b", Try: "a", Failed: "b"}, {Slot: "b", Failed: "a", Starts: "2", Why: NeverWell}} {
		if err := writeState(path, s); err != nil {
			t.Fatal(err)
		}
		if got, err := readState(path); err != nil || got != s {
			t.Errorf("wrote %+v, read %+v, %v", s, got, err)
		}
	}
	block, err := State{Slot: "a", Try: "b", Failed: "b"}.Encode()
	if err != nil || len(block) != StateSize || bytes.ContainsAny(block[stateSector:], "=\n") {
		t.Errorf("a write touches more than one sector: %q, %v", block, err)
	}
	for _, s := range []State{{Slot: "c"}, {Starts: "4"}, {Why: "bored"}} {
		if _, err := s.Encode(); err == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
	// As GRUB writes it: its own order, unset keys left out.
	grub := []byte(stateHead + "failed=\nslot=b\n" + strings.Repeat("#", StateSize))[:StateSize]
	if got, err := ParseState(grub); err != nil || got != (State{Slot: "b"}) {
		t.Errorf("GRUB's block read as %+v, %v", got, err)
	}
}

func TestDevice(t *testing.T) {
	class := t.TempDir()
	for name, uevent := range map[string]string{
		"sda":     "DEVTYPE=disk\n",
		"sda4":    "DEVTYPE=partition\nPARTN=4\nPARTNAME=minne-a\n",
		"sdb4":    "DEVTYPE=partition\nPARTN=4\nPARTNAME=minne-a\n",
		"mmcblk0": "DEVTYPE=disk\n",
	} {
		if err := os.MkdirAll(filepath.Join(class, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(class, name, "uevent"), []byte(uevent), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ disk, partition, want string }{
		{"", "minne-a", "/dev/sda4"}, {"sdb", "minne-a", "/dev/sdb4"}, {"", "minne-b", ""}, {"mmcblk0", "minne-a", ""},
	} {
		got, err := deviceIn(class, c.disk, c.partition)
		if got != c.want || (c.want == "") != errors.Is(err, ErrNoMedium) {
			t.Errorf("disk %q, %s: %q, %v; want %q", c.disk, c.partition, got, err, c.want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		"root=/dev/sda1 quiet":            " false",
		"minne.slot=a panic=10":           "a false",
		"minne.slot=b minne.try=1 quiet":  "b true",
		"minne.slot=../x minne.try=1":     " true",
		"xminne.slot=a minne.slot=b nofb": "b false",
	} {
		name, try := parseCommandLine(line)
		if got := name + " " + map[bool]string{true: "true", false: "false"}[try]; got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// readState reads the boot state from a device or file.
func readState(path string) (State, error) {
	f, err := os.Open(path)
	if err != nil {
		return State{}, fmt.Errorf("boot state: %w", err)
	}
	defer f.Close()
	return LoadState(f)
}

// writeState writes the boot state to a device or file and waits until the medium has it.
func writeState(path string, s State) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("boot state: %w", err)
	}
	return errors.Join(StoreState(f, s), f.Close())
}
