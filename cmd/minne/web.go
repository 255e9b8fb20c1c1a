// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"minne/internal/base/atomicfile"
	"minne/internal/base/medium"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/web"
)

func newWebCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "web",
		Short: "Make users and tokens of the web page and the API",
		Long: `Make users of the web page, and tokens for programs that use the API over HTTPS. A hash goes
into the secrets file; the configuration names the user, the role, and the secret. Neither
changes the running router: minne apply does.`,
	}
	user := &cobra.Command{Use: "user", Short: "Make users of the web page, and change passwords"}
	user.AddCommand(newWebUserCommand(a), newWebPasswordCommand(a))
	c.AddCommand(user, newWebTokenCommand(a))
	return c
}

// roleFlag is --role.
func roleFlag(c *cobra.Command, role *string) {
	c.Flags().StringVar(role, "role", "read", "what the account may do: `read`, operate or admin")
}

func checkAccount(name, role string) error {
	switch {
	case !secretWord.MatchString(name) || strings.ToLower(name) != name || len(name) > 32:
		return usageError{fmt.Errorf("%q can't name an account: expected small letters, digits, dots, dashes and underscores, at most 32", name)}
	case role != "read" && role != "operate" && role != "admin":
		return usageError{fmt.Errorf("--role %q: expected read, operate or admin", role)}
	}
	return nil
}

func newWebUserCommand(a *app) *cobra.Command {
	var role string
	var random bool
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a user: store the hash of a password",
		Long: `Make a user of the web page. The password is read from the terminal, or is the first line of
the standard input; --random makes one and prints it once. Its hash is stored in the secrets
file as web-NAME; a secret that is there already is never replaced. The command prints the
line that the configuration needs.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkAccount(args[0], role); err != nil {
				return err
			}
			password, hash, err := newPassword(c, random)
			if err != nil {
				return err
			}
			secret := "web-" + args[0]
			file, err := a.keepSecrets(map[string]string{secret: hash})
			if err != nil {
				return err
			}
			if password != "" {
				fmt.Fprintf(a.out, "password of %s: %s\nIt is shown this once and kept nowhere.\n", args[0], password)
			}
			_, err = fmt.Fprintf(a.out, "secret %s: stored in %s\nWrite into the configuration, below services.web.users, and minne apply it:\n\n      %s: {role: %s, secret: %s}\n",
				secret, file, args[0], role, secret)
			return err
		},
	}
	roleFlag(c, &role)
	randomFlag(c, &random)
	return c
}

func randomFlag(c *cobra.Command, random *bool) {
	c.Flags().BoolVar(random, "random", false, "make a random password and print it once")
}

func newWebPasswordCommand(a *app) *cobra.Command {
	var random bool
	c := &cobra.Command{
		Use:   "passwd NAME",
		Short: "Change the password of a user",
		Long: `Change the password of a user of the configuration; admin is one when the configuration has
system.admin.password. The password is read as by minne web user add. The new one is valid,
and the user logged out, after the next minne apply.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, text, err := a.load(nil)
			if err != nil {
				return err
			}
			cfg, err := config.Parse(file, []byte(text))
			if err != nil {
				return err
			}
			secret := ""
			if args[0] == "admin" {
				secret = cfg.System.Admin.Password
			}
			if w := cfg.Services.Web; w != nil && w.Users[args[0]] != nil {
				secret = w.Users[args[0]].Secret
			}
			if secret == "" {
				return fmt.Errorf("%s has no user %s: minne web user add makes one", file, args[0])
			}
			password, hash, err := newPassword(c, random)
			if err != nil {
				return err
			}
			if err := a.replaceSecret(secret, hash); err != nil {
				return err
			}
			if password != "" {
				fmt.Fprintf(a.out, "password of %s: %s\nIt is shown this once and kept nowhere.\n", args[0], password)
			}
			_, err = fmt.Fprintf(a.out, "secret %s: replaced; minne apply puts it in force\n", secret)
			return err
		},
	}
	randomFlag(c, &random)
	return c
}

func newWebTokenCommand(a *app) *cobra.Command {
	var role string
	c := &cobra.Command{
		Use:   "token NAME",
		Short: "Make a token with which a program uses the API",
		Long: `Make a token with which a program uses the API over HTTPS, in the header
"Authorization: Bearer TOKEN". The token is printed once. Its SHA-256 is stored in the secrets
file as web-token-NAME; a secret that is there already is never replaced. The command prints
the line that the configuration needs.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkAccount(args[0], role); err != nil {
				return err
			}
			token, kept := web.NewToken()
			secret := "web-token-" + args[0]
			if _, err := a.keepSecrets(map[string]string{secret: kept}); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.out, "token: %s\nIt is shown this once and kept nowhere.\nWrite into the configuration, below services.web.tokens, and minne apply it:\n\n      %s: {role: %s, secret: %s}\n",
				token, args[0], role, secret)
			return err
		},
	}
	roleFlag(c, &role)
	return c
}

// newPassword reads a password, on a terminal twice and without showing it, else the first line of the input, and returns its
// hash. When a random one is wanted it makes one, which it returns, too.
func newPassword(c *cobra.Command, random bool) (made, hash string, err error) {
	given := ""
	switch in := c.InOrStdin(); {
	case random:
		text := strings.ToLower(rand.Text()) // base 32: nothing looks like a one or a zero
		made = text[0:4] + "-" + text[4:8] + "-" + text[8:12] + "-" + text[12:16]
		given = made
	case isTerminal(in):
		given, err = new(passphrase).read(true)
	default:
		given, err = firstLine(in)
	}
	if err != nil {
		return "", "", err
	}
	if len(given) < leastPassword {
		return "", "", fmt.Errorf("the password has less than %d characters: choose a longer one", leastPassword)
	}
	hash, err = web.Hash(given)
	return made, hash, err
}

// leastPassword is how many characters a new password has at least.
const leastPassword = 8

// replaceSecret gives a secret of the instance's file another value; the others stay as they are.
func (a *app) replaceSecret(name, value string) error {
	inst, err := a.inst()
	if err != nil {
		return err
	}
	if _, err := config.LoadSecrets(inst.Secrets); err != nil {
		return err
	}
	text, err := os.ReadFile(inst.Secrets)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, name+":") {
			b.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	fmt.Fprintf(&b, "%s: %q\n", name, value)
	done, err := medium.Writable(inst.Secrets)
	if err != nil {
		return err
	}
	return errors.Join(atomicfile.Write(inst.Secrets, []byte(b.String()), 0o600, atomicfile.Durable), done())
}
