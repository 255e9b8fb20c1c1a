// SPDX-License-Identifier: Apache-2.0

package classbench

import (
	"testing"

	"minne/internal/lab/rulegen"
)

func TestEverySwapIsTimed(t *testing.T) {
	took, err := Swaps(t.Context(), rulegen.Rules(rulegen.ACL, 100, false, 1), 3)
	if err != nil || len(took) != 3 {
		t.Fatalf("%v, %v; expected three times", took, err)
	}
	for _, d := range took {
		if d <= 0 {
			t.Errorf("a swap took %v", d)
		}
	}
}
