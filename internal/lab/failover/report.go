// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"minne/internal/lab"
)

// Report is what all kinds of death cost.
type Report struct {
	Prefixes int     `json:"prefixes"`
	Deaths   []Death `json:"deaths"`
}

// Run builds the network and measures kinds of death, one after the other.
func Run(ctx context.Context, binary string, prefixes int, kinds []Kind, progress func(string)) (r Report, err error) {
	r.Prefixes = prefixes
	progress(fmt.Sprintf("building a router with two ISPs and a table of %d prefixes", prefixes))
	b, err := New(ctx, binary, prefixes)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, k := range kinds {
		progress("ISP A: " + string(k))
		d, err := b.Measure(ctx, k)
		if err != nil {
			return r, err
		}
		r.Deaths = append(r.Deaths, d)
	}
	return r, nil
}

// WriteTable prints the report for people.
func (r Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, "Two ISPs, %d prefixes by BGP, BFD; %d destinations each way, %d packets/s to each\n\n", r.Prefixes, hosts, rate/hosts)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ISP A\tpackets\toutage median\tlongest\tlost\tof\tdestinations hit\tthe router says\t")
	for _, d := range r.Deaths {
		line := func(what, way string, o lab.Outage, seen string) {
			fmt.Fprintf(w, "%s\t%s\t%.2f s\t%.2f s\t%d\t%d\t%d\t%s\t\n", what, way, o.Median, o.Longest, o.Lost, o.Sent, o.Hit, seen)
		}
		line(string(d.Kind), "to the world", d.Dies.Out, d.Seen)
		line("", "to the desk", d.Dies.In, "")
		line("  back", "to the world", d.Back.Out, "")
		line("", "to the desk", d.Back.In, "")
	}
	return w.Flush()
}
