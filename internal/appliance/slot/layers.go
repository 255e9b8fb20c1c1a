// SPDX-License-Identifier: Apache-2.0

package slot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
)

// Base is the name of the layer that GRUB reads the kernel from, and that all others lie upon.
const Base = "base"

// layerAlign is what a layer's first byte is a multiple of: the initramfs copies in blocks of this size.
const layerAlign = 65536

// Layer is one squashfs of a payload: the base, or a set that lies over it. Its words in a trailer are others than those of the
// whole payload: the initramfs of a system that knew no layers takes the last "size" and "sha256" that it finds there.
type Layer struct {
	Name  string `json:"name"`
	At    int64  `json:"at"`    // its first byte in the payload
	Bytes int64  `json:"bytes"` // its length
	Hash  string `json:"hash"`  // SHA-256, hex
}

// Sets returns the names of what is added to the base.
func (s System) Sets() (names []string) {
	for _, l := range s.Layers {
		if l.Name != Base {
			names = append(names, l.Name)
		}
	}
	return names
}

// Lacks returns the sets that s has and other has not.
func (s System) Lacks(other System) (names []string) {
	have := other.Sets()
	return slices.DeleteFunc(s.Sets(), func(name string) bool { return slices.Contains(have, name) })
}

// Pack writes a payload of several layers, the base first, one behind the other.
func Pack(payload io.Writer, names []string, contents []io.Reader) (layers []Layer, err error) {
	at := int64(0)
	for i, content := range contents {
		if filling := (layerAlign - at%layerAlign) % layerAlign; filling > 0 {
			if _, err := payload.Write(make([]byte, filling)); err != nil {
				return nil, err
			}
			at += filling
		}
		h := sha256.New()
		n, err := io.Copy(io.MultiWriter(payload, h), content)
		if err != nil {
			return nil, fmt.Errorf("layer %s: %w", names[i], err)
		}
		layers = append(layers, Layer{Name: names[i], At: at, Bytes: n, Hash: hex.EncodeToString(h.Sum(nil))})
		at += n
	}
	return layers, nil
}
