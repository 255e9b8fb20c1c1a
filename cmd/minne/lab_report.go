// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"minne/internal/base/keyfile"
	"minne/internal/lab/report"
)

func newLabShowCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show RESULT",
		Short: "Show a report",
		Long: `Print a report: first the doubts, then the findings in words, then the tables. RESULT is
the directory of a report, or its result.json.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := report.Read(args[0])
			if err != nil {
				return err
			}
			return a.print(asJSON, r, func(out io.Writer) error { return report.WriteTables(out, r) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return c
}

func newLabKeygenCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "keygen FILE",
		Short: "Create a key to sign reports",
		Long: `Create an ed25519 key pair: the private key in FILE, readable only by its owner, and the
public key in FILE.pub, for those who verify. Both are in PEM format, as OpenSSL uses it.
Existing files are never overwritten.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			key, err := keyfile.New(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "key %s\n  private  %s      keep it to yourself\n  public   %s.pub  publish it with the fingerprint above\n", keyfile.Fingerprint(key), args[0], args[0])
			return err
		},
	}
}

func newLabSignCommand(a *app) *cobra.Command {
	var keyFile string
	c := &cobra.Command{
		Use:   "sign RESULT --key FILE",
		Short: "Sign a report",
		Long: `Sign the result.json of a report, with the page and CSV files, which are first generated
again from it. The signature is in result.json.sig in the same directory.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if keyFile == "" {
				return usageError{fmt.Errorf("--key is missing: expected the private key that \"minne lab keygen\" made")}
			}
			key, err := keyfile.Private(keyFile)
			if err != nil {
				return err
			}
			fingerprint, files, err := report.Sign(args[0], key)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "signed by %s: %s\n", fingerprint, strings.Join(files, ", "))
			return err
		},
	}
	c.Flags().StringVar(&keyFile, "key", "", "`file` with the private key")
	return c
}

func newLabVerifyCommand(a *app) *cobra.Command {
	var keyFiles []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify RESULT",
		Short: "Check the signature of a report",
		Long: `Verify that result.json, the page and the CSV files match the signature, and show the
signer. With --key, the signer must be one of these keys. Without it, anyone could have
signed: compare the fingerprint with the one that the author publishes. The exit code is
1 when anything was changed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var trusted []report.Trusted
			for _, file := range keyFiles {
				key, err := keyfile.Public(file)
				if err != nil {
					return err
				}
				trusted = append(trusted, report.Trusted{Name: file, Key: key})
			}
			s, err := report.Verify(args[0], trusted)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(s)
			}
			return a.printSigned(s)
		},
	}
	c.Flags().StringArrayVar(&keyFiles, "key", nil, "`file` with a trusted public key; may be given several times")
	c.Flags().BoolVar(&asJSON, "json", false, "print the outcome as JSON")
	return c
}

func (a *app) printSigned(s *report.Signed) error {
	fmt.Fprintf(a.out, "signed by %s", s.Fingerprint)
	if s.Known != "" {
		fmt.Fprintf(a.out, ", the key in %s\n", s.Known)
	} else {
		fmt.Fprintln(a.out, "\nno --key was given: compare that fingerprint with the one that the author publishes")
	}
	fmt.Fprintln(a.out, "unchanged:", strings.Join(s.Files, ", "))
	if len(s.Absent) > 0 {
		fmt.Fprintln(a.out, "signed, but not here:", strings.Join(s.Absent, ", "))
	}
	return nil
}
