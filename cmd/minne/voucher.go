// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"rsc.io/qr"

	"minne/internal/daemon/router"
	"minne/internal/subsystem/services/login"
)

func newVoucherCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "voucher",
		Short: "Make, show and print vouchers",
		Long:  "Vouchers are codes that log a few devices in for a time, which begins with the first use, and for some bytes.",
	}
	c.AddCommand(newVoucherAddCommand(a), newVoucherListCommand(a), newVoucherExportCommand(a), newVoucherPrintCommand(a))
	for _, one := range []struct{ do, short string }{
		{"show", "Show vouchers by their codes"}, {"deactivate", "Log out who uses vouchers, and let nobody use them"},
		{"activate", "Let people use vouchers again that were deactivated"}, {"remove", "Remove vouchers"},
	} {
		c.AddCommand(newVoucherChooseCommand(a, one.do, one.short))
	}
	return c
}

func newVoucherAddCommand(a *app) *cobra.Command {
	q := login.VouchersWanted{}
	var span, amount string
	var asJSON bool
	c := &cobra.Command{
		Use:   "add",
		Short: "Make vouchers and print their codes",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if q.Seconds, err = loginSpan(span); err != nil {
				return err
			}
			if q.Bytes, err = byteCount(amount); err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			v, err := router.AddVouchers.Ask(c.Context(), client, q)
			if err != nil {
				return err
			}
			return a.printVouchers(v, asJSON)
		},
	}
	c.Flags().StringVar(&q.Login, "login", "", "`name` of the login, where there are several")
	c.Flags().IntVar(&q.Count, "count", 1, "how many vouchers")
	c.Flags().StringVar(&span, "time", "", "`time` from the first use on, such as 7d (default: for ever)")
	c.Flags().StringVar(&amount, "bytes", "", "what may be sent and received together, such as `20GB` (default: any number)")
	c.Flags().IntVar(&q.Devices, "devices", 1, "devices at the same time")
	c.Flags().StringVar(&q.Comment, "comment", "", "`text` by which these vouchers are found again")
	c.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return c
}

// byteCount reads a number of bytes as 20GB.
func byteCount(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	upper := strings.ToUpper(strings.TrimSpace(text))
	for i, unit := range []string{"TB", "GB", "MB", "KB", "B", ""} {
		number, has := strings.CutSuffix(upper, unit)
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if has && err == nil && n > 0 && n < 1e6 {
			return uint64(n * []float64{1e12, 1e9, 1e6, 1e3, 1, 1}[i]), nil
		}
	}
	return 0, usageError{fmt.Errorf("%q is no number of bytes: expected one as 500MB or 20GB", text)}
}

// choose asks for vouchers, and for something to become of them.
func (a *app) choose(c *cobra.Command, q login.VouchersChosen) (login.Vouchers, error) {
	client, err := a.client()
	if err != nil {
		return login.Vouchers{}, err
	}
	return router.ChooseVouchers.Ask(c.Context(), client, q)
}

// commented asks for the vouchers with a comment, for all without one.
func (a *app) commented(c *cobra.Command, comment string) (login.Vouchers, error) {
	return a.choose(c, login.VouchersChosen{Comment: comment, All: comment == ""})
}

func newVoucherListCommand(a *app) *cobra.Command {
	var asJSON bool
	var comment string
	c := &cobra.Command{
		Use:   "list",
		Short: "List vouchers with their codes",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v, err := a.commented(c, comment)
			if err != nil {
				return err
			}
			return a.printVouchers(v, asJSON)
		},
	}
	c.Flags().StringVar(&comment, "comment", "", "only those with this `text`")
	c.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return c
}

func newVoucherChooseCommand(a *app, do, short string) *cobra.Command {
	var asJSON bool
	q := login.VouchersChosen{}
	c := &cobra.Command{
		Use:   do + " [CODE…]",
		Short: short,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && q.Comment == "" {
				return usageError{errors.New("which vouchers? Name codes, or --comment")}
			}
			if q.Codes = args; do != "show" {
				q.Do = do
			}
			v, err := a.choose(c, q)
			if err != nil || asJSON || do == "show" {
				return errors.Join(err, a.vouchersIf(err == nil, v, asJSON))
			}
			_, err = fmt.Fprintf(a.out, "%d vouchers: %sd\n", len(v.Vouchers), do)
			return err
		},
	}
	c.Flags().StringVar(&q.Comment, "comment", "", "those with this `text`")
	c.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return c
}

func (a *app) vouchersIf(do bool, v login.Vouchers, asJSON bool) error {
	if !do {
		return nil
	}
	return a.printVouchers(v, asJSON)
}

func newVoucherExportCommand(a *app) *cobra.Command {
	var comment string
	c := &cobra.Command{
		Use:   "export",
		Short: "Print vouchers as CSV",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v, err := a.commented(c, comment)
			if err != nil {
				return err
			}
			w := csv.NewWriter(a.out)
			rows := [][]string{{"code", "login", "state", "seconds", "bytes", "used_bytes", "devices", "until", "comment"}}
			for _, c := range v.Vouchers {
				until := ""
				if !c.Until.IsZero() {
					until = c.Until.UTC().Format(time.RFC3339)
				}
				comment := c.Comment
				if comment != "" && strings.ContainsRune("=+-@", rune(comment[0])) {
					comment = "'" + comment // a spreadsheet would take it for a formula
				}
				rows = append(rows, []string{c.Code, c.Login, c.State, fmt.Sprint(c.Seconds), fmt.Sprint(c.Bytes), fmt.Sprint(c.Used.Sent + c.Used.Received), fmt.Sprint(c.Devices), until, comment})
			}
			return w.WriteAll(rows)
		},
	}
	c.Flags().StringVar(&comment, "comment", "", "only those with this `text`")
	return c
}

func newVoucherPrintCommand(a *app) *cobra.Command {
	q := login.VouchersChosen{}
	c := &cobra.Command{
		Use:   "print [CODE…]",
		Short: "Print a sheet of vouchers with QR codes, as HTML",
		Long: `Print a sheet of vouchers as an HTML page for a printer: minne login voucher print --comment summer >sheet.html.
The QR code on each opens the login page with the code filled in. Vouchers that admit nobody any more are left out.`,
		RunE: func(c *cobra.Command, args []string) error {
			q.Codes, q.All = args, len(args) == 0 && q.Comment == ""
			v, err := a.choose(c, q)
			if err != nil {
				return err
			}
			return voucherSheet(a.out, v)
		},
	}
	c.Flags().StringVar(&q.Comment, "comment", "", "only those with this `text`")
	return c
}

// card is a voucher on the sheet.
type card struct {
	Title, Portal, Code, Time, Bytes, Devices string
	QR                                        template.URL
}

// sheet needs nothing but itself: it is printed where there may be no Internet.
var sheet = template.Must(template.New("sheet").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Vouchers</title>
<style>
body{font:11pt system-ui,sans-serif;margin:8mm;display:grid;grid-template-columns:repeat(auto-fill,minmax(85mm,1fr));gap:4mm}
div{border:1px dashed #555;padding:4mm;break-inside:avoid;display:grid;grid-template-columns:1fr 30mm;gap:2mm}
img{width:30mm;height:30mm;image-rendering:pixelated}b{font:700 15pt ui-monospace,monospace;letter-spacing:.05em}p{margin:.6mm 0}
</style>
{{range .}}<div><section><p>{{.Title}}</p><p><b>{{.Code}}</b></p><p>{{.Time}}{{.Bytes}}{{.Devices}}</p><p>{{.Portal}}</p></section><img alt="" src="{{.QR}}"></div>
{{end}}</html>
`))

// voucherSheet writes the sheet.
func voucherSheet(w io.Writer, v login.Vouchers) error {
	var cards []card
	for _, c := range v.Vouchers {
		if c.State != "new" && c.State != "in use" {
			continue
		}
		one := card{Title: v.Title, Portal: v.Portal, Code: c.Code, Time: "no time limit", Devices: ", 1 device"}
		if c.Seconds > 0 {
			one.Time = voucherTime(c) + " from the first use on"
		}
		if c.Bytes > 0 {
			one.Bytes = ", " + voucherBytes(c)
		}
		if c.Devices > 1 {
			one.Devices = fmt.Sprintf(", %d devices", c.Devices)
		}
		code, err := qr.Encode(v.Portal+"?voucher="+url.QueryEscape(c.Code), qr.M)
		if err != nil {
			return err
		}
		one.QR = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(code.PNG()))
		cards = append(cards, one)
	}
	var b bytes.Buffer
	if err := sheet.Execute(&b, cards); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
