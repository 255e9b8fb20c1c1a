// SPDX-License-Identifier: Apache-2.0

package voices

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minne/internal/model/packet"
	"minne/internal/testing/testframes"
)

// Captures of real traffic are extra inputs where they are at hand: classic pcap
// files in ../shared/data/pcap beside the repository.

const captureDir = "../../../shared/data/pcap"

// captureWindow is fewer frames than one NAPI poll takes from a port (64): all come
// in by the same port, and markers by another one must not overtake them.
const captureWindow = 48

// captures sends the IP packets of all captures into the jumbo port and compares.
func (v *voices) captures(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(captureDir, "*.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Logf("no captures in %s", captureDir)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			frames, err := readCapture(b)
			if err != nil {
				t.Fatal(err)
			}
			v.run(t, slices.Values(slices.Collect(slices.Chunk(samplesOf(frames), captureWindow))))
		})
	}
}

// samplesOf addresses the frames that fit to the router's jumbo port and stamps them.
func samplesOf(frames [][]byte) []testframes.Sample {
	var samples []testframes.Sample
	for _, frame := range frames {
		if len(frame) < packet.EthernetLen || len(frame) > packet.EthernetLen+portMTUs[jumboPort] {
			continue
		}
		s := testframes.Sample{Number: uint64(len(samples)), Port: firstIndex + jumboPort, Frame: slices.Clone(frame)}
		mac := portMAC(jumboPort)
		copy(s.Frame, mac[:])
		testframes.Stamp(s.Frame, uint32(s.Number))
		samples = append(samples, s)
	}
	return samples
}

// readCapture reads the Ethernet frames of a classic pcap file of either byte order.
func readCapture(b []byte) ([][]byte, error) {
	const fileHeader, recordHeader, ethernet = 24, 16, 1
	if len(b) < fileHeader {
		return nil, fmt.Errorf("pcap: %d bytes, expected a header of %d", len(b), fileHeader)
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch magic := binary.BigEndian.Uint32(b); magic {
	case 0xa1b2c3d4, 0xa1b23c4d:
		order = binary.BigEndian
	case 0xd4c3b2a1, 0x4d3cb2a1:
	default:
		return nil, fmt.Errorf("pcap: magic number %#x, expected a classic pcap file", magic)
	}
	if kind := order.Uint32(b[20:]); kind != ethernet {
		return nil, nil
	}
	var frames [][]byte
	for b = b[fileHeader:]; len(b) >= recordHeader; {
		n := int(order.Uint32(b[8:]))
		if n > len(b)-recordHeader {
			return nil, fmt.Errorf("pcap: a record of %d bytes, %d are left", n, len(b)-recordHeader)
		}
		frames = append(frames, b[recordHeader:recordHeader+n])
		b = b[recordHeader+n:]
	}
	return frames, nil
}

func TestReadCapture(t *testing.T) {
	little := append([]byte{0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0}, make([]byte, 12)...)
	little = append(little, 1, 0, 0, 0)
	record := append(make([]byte, 8), 2, 0, 0, 0, 9, 0, 0, 0, 0xab, 0xcd)
	frames, err := readCapture(append(bytes.Clone(little), record...))
	if err != nil || len(frames) != 1 || !bytes.Equal(frames[0], []byte{0xab, 0xcd}) {
		t.Errorf("got %x, %v, expected one frame abcd", frames, err)
	}
	for name, tt := range map[string]struct {
		file   []byte
		expect string
	}{
		"short":      {little[:20], "20 bytes"},
		"magic":      {append([]byte{1}, little[1:]...), "magic number"},
		"cut record": {append(bytes.Clone(little), record[:17]...), "a record of 2 bytes, 1 are left"},
	} {
		if _, err := readCapture(tt.file); err == nil || !strings.Contains(err.Error(), tt.expect) {
			t.Errorf("%s: %v, expected %q", name, err, tt.expect)
		}
	}
}
