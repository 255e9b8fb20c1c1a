// SPDX-License-Identifier: Apache-2.0

// Command seal makes an upgrade file: a squashfs with the trailer that describes
// and signs it, and the trailer for a slot of the image, which needs no signature:
// so anybody can build the same image who has the public key. image/build.sh runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
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
	if len(args) != 3 {
		return errors.New("expected three names: the squashfs, the upgrade file and the slot's trailer to write")
	}
	var err error
	if s.Built, err = time.Parse(time.RFC3339, built); err != nil {
		return err
	}
	key, err := keyfile.Private(keyFile)
	if _, public := keyfile.Public(keyFile); err != nil && public != nil {
		return err
	}
	in, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer in.Close()
	if s, err = slot.Describe(s, in); err != nil {
		return err
	}
	unsigned, err := slot.Seal(s, nil)
	if err == nil {
		err = os.WriteFile(args[2], unsigned, 0o644)
	}
	if err != nil {
		return err
	}
	trailer, err := slot.Seal(s, key)
	if err != nil {
		return err
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	out, err := os.Create(args[1])
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		_, err = out.Write(trailer)
	}
	return errors.Join(err, out.Close())
}
