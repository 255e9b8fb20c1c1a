// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bufio"
	"fmt"
	"io"

	"minne/internal/algo/lpm"
)

// WriteRoutes writes a table of routes as peers read it: a prefix and the number of its next hop in each line.
func WriteRoutes(w io.Writer, routes []lpm.Route) error {
	b := bufio.NewWriter(w)
	for _, r := range routes {
		fmt.Fprintf(b, "%v %d\n", r.Prefix, r.NextHop)
	}
	return b.Flush()
}
