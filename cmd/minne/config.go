// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"minne/internal/base/atomicfile"
	"minne/internal/model/config"
)

func newConfigCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Convert configuration files"}
	c.AddCommand(newConfigMigrateCommand(a, config.Migrate))
	return c
}

// migrateText brings a configuration to today's version of the format.
type migrateText func(file string, data []byte) (config.Migrated, error)

func newConfigMigrateCommand(a *app, migrate migrateText) *cobra.Command {
	var write bool
	c := &cobra.Command{
		Use:   "migrate [FILE]",
		Short: "Convert a configuration to the current format",
		Long: `Convert a configuration (default: the router's own) to the current version of the
format and print it. Comments stay. The router also reads older versions; convert a
file when you want to add new keys to it.

With --write the file is replaced. The old one is kept as FILE.version-N (N is its
version), for a return to an older Minne.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := a.configFile(args)
			if err != nil {
				return err
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("read configuration: %w", err)
			}
			m, err := migrate(file, data)
			if err != nil {
				return err
			}
			if !write {
				_, err = a.out.Write(m.Text)
				return err
			}
			return a.writeMigrated(file, data, m)
		},
	}
	c.Flags().BoolVar(&write, "write", false, "replace the file and keep the old one as FILE.version-N")
	return c
}

// configFile is the file that a command line names, or the instance's.
func (a *app) configFile(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	inst, err := a.inst()
	return inst.Config, err
}

// writeMigrated replaces a file by what it became. At every moment there is a whole file under its name.
func (a *app) writeMigrated(file string, old []byte, m config.Migrated) error {
	if m.Changes == nil {
		fmt.Fprintf(a.out, "%s has today's version %d of the format: nothing to do\n", file, config.Version)
		return nil
	}
	was, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	kept := fmt.Sprintf("%s.version-%d", file, m.From)
	if err := keep(kept, old, was.Mode().Perm()); err != nil {
		return err
	}
	if err := atomicfile.Write(file, m.Text, was.Mode().Perm(), atomicfile.Durable); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	fmt.Fprintf(a.out, "%s: from version %d to %d\n", file, m.From, config.Version)
	for _, change := range m.Changes {
		fmt.Fprintf(a.out, "- %s\n", change)
	}
	fmt.Fprintf(a.out, "the old file is kept as %s\n", kept)
	return nil
}

// keep writes a file that must not be there yet.
func keep(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: move it away first, it may be the only old file", path)
	}
	if err != nil {
		return fmt.Errorf("keep the old configuration: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("keep the old configuration: %w", err), os.Remove(path))
	}
	return nil
}
