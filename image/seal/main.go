// SPDX-License-Identifier: Apache-2.0

// Command seal makes an upgrade file: a squashfs with the trailer that describes
// and signs it. image/build.sh runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"minne/internal/config"
	"minne/internal/keyfile"
	"minne/internal/slot"
)

func main() {
	s := slot.System{Schema: config.Version}
	flag.StringVar(&s.Version, "version", "", "version of the system")
	flag.StringVar(&s.Arch, "arch", "amd64", "architecture")
	built := flag.String("built", "", "time of the commit, RFC 3339")
	keyFile := flag.String("key", "", "ed25519 private key in PEM")
	flag.Parse()
	if err := seal(s, *built, *keyFile, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "seal:", err)
		os.Exit(1)
	}
}

func seal(s slot.System, built, keyFile string, args []string) error {
	if len(args) != 2 {
		return errors.New("expected two names: the squashfs and the upgrade file to write")
	}
	var err error
	if s.Built, err = time.Parse(time.RFC3339, built); err != nil {
		return err
	}
	key, err := keyfile.Private(keyFile)
	if err != nil {
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
