// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/login"
	"minne/internal/subsystem/services/service"
)

func newLoginCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "login",
		Short: "Show and change who is logged in, make vouchers",
		Long: `Networks of the section services.login admit hosts when somebody logs in on them. These commands
show and change who is logged in, at once and without a commit, and make vouchers. minne show login …
has more.`,
	}
	c.AddCommand(newLoginListCommand(a), newLoginCountCommand(a), newLoginAddCommand(a),
		newLoginOrderCommand(a, "remove WHO", "Log a host or a user out", "Log a host out by its MAC address or address, or all hosts of a user by the user's name. Its connections end at once."),
		newLoginOrderCommand(a, "block HOST", "Keep a host out", "Log a host out and let nobody log in on it, for a time or until it is unblocked."),
		newLoginOrderCommand(a, "unblock HOST", "Let a host log in again", "Let people log in again on a host that was blocked, or locked after failed logins."),
		newLoginHashCommand(a), newVoucherCommand(a))
	return c
}

// loginView asks for a view of the login service.
func loginView[A any](ctx context.Context, a *app, view string) (answer A, err error) {
	client, err := a.client()
	if err != nil {
		return answer, err
	}
	text, err := api.Operation[api.Empty, json.RawMessage]{Method: "GET", Path: "/v1/show/login/" + view}.Ask(ctx, client, api.Empty{})
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}

func newLoginListCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List who is logged in",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v, err := loginView[login.Users](c.Context(), a, "users")
			if err != nil || asJSON {
				return errors.Join(err, a.jsonIf(err == nil, v))
			}
			for _, u := range v.Users {
				var addresses []string
				for _, one := range u.Addresses {
					addresses = append(addresses, one.String())
				}
				fmt.Fprintf(a.out, "%s  %s  %s  since %s  %s\n", u.MAC, u.User, u.Login, u.Began.Local().Format("2006-01-02 15:04"), strings.Join(addresses, " "))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return c
}

// jsonIf prints v as JSON.
func (a *app) jsonIf(do bool, v any) error {
	if !do {
		return nil
	}
	return a.printJSON(v)
}

func newLoginCountCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "count",
		Short: "Count who is logged in",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v, err := loginView[login.Users](c.Context(), a, "users")
			if err != nil || asJSON {
				return errors.Join(err, a.jsonIf(err == nil, map[string]int{"count": len(v.Users)}))
			}
			_, err = fmt.Fprintln(a.out, len(v.Users))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the number as JSON")
	return c
}

// carry asks the daemon to do something with hosts.
func (a *app) carry(c *cobra.Command, q login.Order, asJSON bool) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	done, err := router.ChangeLogin.Ask(c.Context(), client, q)
	if err != nil || asJSON {
		return errors.Join(err, a.jsonIf(err == nil, done))
	}
	words := map[string]string{"add": "logged in", "remove": "logged out", "block": "blocked", "unblock": "may log in again"}
	for _, host := range done.Done {
		fmt.Fprintf(a.out, "%s: %s\n", host, words[q.Do])
	}
	return nil
}

// loginHost reads a MAC address or an address.
func loginHost(text string, q *login.Order) error {
	if addr, err := netip.ParseAddr(text); err == nil {
		q.Address = addr.Unmap()
		return nil
	}
	if err := q.MAC.UnmarshalText([]byte(text)); err != nil {
		return usageError{fmt.Errorf("%q is neither a MAC address nor an address", text)}
	}
	return nil
}

func newLoginAddCommand(a *app) *cobra.Command {
	var q login.Order
	var span string
	var asJSON bool
	c := &cobra.Command{
		Use:   "add HOST",
		Short: "Log a host in",
		Long:  "Log a host in by its MAC address or its address, without a user or a voucher: a printer, a guest of the operator.",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := loginHost(args[0], &q); err != nil {
				return err
			}
			seconds, err := loginSpan(span)
			if err != nil {
				return err
			}
			q.Do, q.Seconds = "add", seconds
			return a.carry(c, q, asJSON)
		},
	}
	c.Flags().StringVar(&q.Login, "login", "", "`name` of the login, where there are several")
	c.Flags().StringVar(&q.User, "user", "", "`name` to show in lists (default: operator)")
	c.Flags().StringVar(&span, "time", "", "`time` until it is logged out, such as 12h or 7d (default: never)")
	c.Flags().BoolVar(&asJSON, "json", false, "print what was done as JSON")
	return c
}

func newLoginOrderCommand(a *app, use, short, long string) *cobra.Command {
	var q login.Order
	var span string
	var asJSON bool
	do, _, _ := strings.Cut(use, " ")
	c := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := loginHost(args[0], &q); err != nil {
				if do != "remove" {
					return err
				}
				q.User = args[0]
			}
			seconds, err := loginSpan(span)
			if err != nil {
				return err
			}
			q.Do, q.Seconds = do, seconds
			return a.carry(c, q, asJSON)
		},
	}
	if do == "block" {
		c.Flags().StringVar(&span, "time", "", "`time` until it may log in again, such as 12h or 7d (default: never)")
		c.Flags().StringVar(&q.Comment, "comment", "", "`text` to show in lists")
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print what was done as JSON")
	return c
}

// loginSpan reads a time as 7d or 12h30m, in seconds.
func loginSpan(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	var d config.Duration
	if err := d.UnmarshalText([]byte(text)); err != nil || d.Std() < time.Minute {
		return 0, usageError{fmt.Errorf("%q is not a time: expected one as 7d, 12h or 30m, at least a minute", text)}
	}
	return int64(d.Std() / time.Second), nil
}

func newLoginHashCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "hash",
		Short: "Hash a password for a file of users",
		Long:  "Read a password, from the keyboard or the first line of standard input, and print its hash for a users-file: NAME:HASH.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			line, err := bufio.NewReader(c.InOrStdin()).ReadString('\n')
			if line = strings.TrimRight(line, "\r\n"); line == "" {
				return errors.Join(errors.New("no password on standard input"), err)
			}
			hash, err := login.NewHash(line)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, hash)
			return err
		},
	}
}

// voucherTable is vouchers on a screen.
func voucherTable(v login.Vouchers) service.Table {
	t := service.Table{Head: []string{"Code", "Login", "State", ">Time", ">Bytes", ">Used", ">Devices", "~Comment"}, Empty: "There are no vouchers."}
	for _, c := range v.Vouchers {
		t.Rows = append(t.Rows, []string{c.Code, c.Login, c.State, voucherTime(c), voucherBytes(c), service.Amount(int64(c.Used.Sent + c.Used.Received)), fmt.Sprintf("%d/%d", c.Now, c.Devices), c.Comment})
	}
	return t
}

func voucherTime(c login.VoucherState) string {
	if c.Seconds == 0 {
		return "-"
	}
	return config.Duration(time.Duration(c.Seconds) * time.Second).String()
}

func voucherBytes(c login.VoucherState) string {
	if c.Bytes == 0 {
		return "-"
	}
	return service.Amount(int64(c.Bytes))
}

func (a *app) printVouchers(v login.Vouchers, asJSON bool) error {
	if asJSON {
		return a.printJSON(v)
	}
	screen := a.screen()
	return errors.Join(show.ServiceTable(screen, voucherTable(v)), screen.Flush())
}
