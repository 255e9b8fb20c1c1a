// SPDX-License-Identifier: Apache-2.0

// Command seal makes an upgrade file: the layers of a system, the base and its sets, with the trailer that describes
// and signs them, and the trailer for a slot of the image, which needs no signature:
// so anybody can build the same image who has the public key. image/build.sh runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"minne/internal/appliance/slot"
	"minne/internal/base/keyfile"
	"minne/internal/model/config"
)

func main() {
	s := slot.System{Schema: config.Version}
	flag.StringVar(&s.Version, "version", "", "version of the system")
	flag.StringVar(&s.Arch, "arch", "amd64", "architecture")
	built := flag.String("built", "", "time of the commit, RFC 3339")
	keyFile := flag.String("key", "", "ed25519 key in PEM; with a public one the upgrade file stays unsigned")
	flag.Parse()
	if err := seal(s, *built, *keyFile, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "seal:", err)
		os.Exit(1)
	}
}

func seal(s slot.System, built, keyFile string, args []string) error {
	if len(args) < 3 {
		return errors.New("expected the upgrade file and the slot's trailer to write, and layers as NAME=FILE, the base first")
	}
	var err error
	if s.Built, err = time.Parse(time.RFC3339, built); err != nil {
		return err
	}
	key, err := keyfile.Private(keyFile)
	if _, public := keyfile.Public(keyFile); err != nil && public != nil {
		return err
	}
	out, err := os.Create(args[0])
	if err != nil {
		return err
	}
	if s, err = pack(s, out, args[2:]); err != nil {
		return err
	}
	unsigned, err := slot.Seal(s, nil)
	if err == nil {
		err = os.WriteFile(args[1], unsigned, 0o644)
	}
	if err != nil {
		return err
	}
	trailer, err := slot.Seal(s, key)
	if err != nil {
		return err
	}
	_, err = out.Write(trailer)
	return errors.Join(err, out.Close())
}

// pack writes the payload. That of a base alone is its squashfs, and its description names no layers.
func pack(s slot.System, out *os.File, layers []string) (slot.System, error) {
	var names []string
	var contents []io.Reader
	for _, l := range layers {
		name, path, _ := strings.Cut(l, "=")
		f, err := os.Open(path)
		if err != nil {
			return s, err
		}
		defer f.Close()
		names, contents = append(names, name), append(contents, f)
	}
	packed, err := slot.Pack(out, names, contents)
	if err != nil {
		return s, err
	}
	if len(packed) > 1 {
		s.Layers = packed
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return s, err
	}
	return slot.Describe(s, out)
}
