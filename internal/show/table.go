// SPDX-License-Identifier: Apache-2.0

// Package show prints what the daemon tells as tables, in the words that
// operators know from Cisco and FRR. Every function is pure: values in, text out.
package show

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table lays rows out in columns, two spaces apart. A column whose head begins
// with ">" is set to the right, as figures are read.
type table struct {
	head []string
	rows [][]string
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) error {
	right := make([]bool, len(t.head))
	width := make([]int, len(t.head))
	head := make([]string, len(t.head))
	for i, h := range t.head {
		head[i], right[i] = strings.CutPrefix(h, ">")
	}
	return t.layOut(w, right, width, append([][]string{head}, t.rows...))
}

// rowsOnly writes the table without its head.
func (t *table) rowsOnly(w io.Writer) error {
	return t.layOut(w, make([]bool, len(t.head)), make([]int, len(t.head)), t.rows)
}

func (t *table) layOut(w io.Writer, right []bool, width []int, all [][]string) error {
	for _, row := range all {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if right[i] {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// count prints a number with its thousands apart: 1,062,046.
func count[N int | uint32 | uint64](n N) string {
	digits := strconv.FormatUint(uint64(n), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// bytes prints a size with the largest unit that keeps three figures.
func bytes(n uint64) string { return scaled(float64(n), 1024, "B", "KiB", "MiB", "GiB", "TiB") }

// bits prints a rate in bit/s.
func bits(perSecond float64) string {
	return scaled(perSecond, 1000, "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")
}

// packets prints a rate in packets/s.
func packets(perSecond float64) string { return scaled(perSecond, 1000, "pps", "kpps", "Mpps") }

func scaled(v, step float64, units ...string) string {
	unit := 0
	for v >= step && unit < len(units)-1 {
		v /= step
		unit++
	}
	if unit == 0 || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, units[unit])
	}
	return fmt.Sprintf("%.3g %s", v, units[unit])
}

// since prints a time span as FRR does: 00:01:02, 3d04h05m, 2w3d04h.
func since(d time.Duration) string {
	day := 24 * time.Hour
	hours, minutes := int(d%day/time.Hour), int(d%time.Hour/time.Minute)
	switch {
	case d < day:
		return fmt.Sprintf("%02d:%02d:%02d", hours, minutes, int(d%time.Minute/time.Second))
	case d < 7*day:
		return fmt.Sprintf("%dd%02dh%02dm", d/day, hours, minutes)
	}
	return fmt.Sprintf("%dw%dd%02dh", d/(7*day), d%(7*day)/day, hours)
}

// orDash is the value, or a dash in its place.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
