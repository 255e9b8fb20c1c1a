// SPDX-License-Identifier: Apache-2.0

// Package hands changes what only Minne may change, for tests of how that is noticed and put right.
package hands

import (
	"context"

	"minne/internal/subsystem/nft"
)

// Nft has nft(8) change a table of family inet that has an owner, in the network namespace of the caller's
// thread: as one that has taken the owner's socket, or has done it while there was none. text is what the
// table was loaded with; the script may be about this table only.
func Nft(ctx context.Context, table, text, script string) error {
	if script == "delete table inet "+table {
		return nft.Remove(table)
	}
	_, err := nft.Load(ctx, table, text+script)
	return err
}
