// SPDX-License-Identifier: Apache-2.0

package service

import "fmt"

// Amount is a number of bytes in the largest unit that keeps it above 1, for tables.
func Amount(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	value, unit := float64(n), 0
	for value >= 1000 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
